//! The engine speaks of options as a library does, by the names of fields: `max_iterations`. On the command
//! line they are flags: --max-iterations.

use clap::CommandFactory;
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::OnceLock;

/// The names of all flags of all commands.
fn known() -> &'static HashSet<String> {
    static KNOWN: OnceLock<HashSet<String>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let command = super::Arguments::command();
        let flags = command.get_subcommands().flat_map(clap::Command::get_arguments);
        flags.filter_map(|argument| Some(argument.get_long()?.to_string())).collect()
    })
}

/// A message of the engine with its options as flags: "`memory` is too small" as "--memory is too small".
/// What is no flag stays as it is, such as a command between its marks.
pub(super) fn in_flags(text: &str) -> Cow<'_, str> {
    if !text.contains('`') {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('`') {
        out += before;
        let flag = after.split_once('`').map(|(name, behind)| (name.replace('_', "-"), name, behind));
        match flag.filter(|(flag, name, _)| !name.contains('-') && known().contains(flag)) {
            Some((flag, _, behind)) => {
                out += "--";
                out += &flag;
                rest = behind;
            }
            None => {
                out.push('`');
                rest = after;
            }
        }
    }
    (out + rest).into()
}

#[cfg(test)]
mod tests {
    use super::in_flags;

    #[test]
    fn fields_become_flags_and_commands_stay() {
        assert_eq!(in_flags("`memory` 64 MB is too small"), "--memory 64 MB is too small");
        assert_eq!(in_flags("set `no_clip` and `max_iterations`"), "set --no-clip and --max-iterations");
        assert_eq!(
            in_flags("`tenfill resume` goes on, `force` begins anew"),
            "`tenfill resume` goes on, --force begins anew"
        );
        assert_eq!(in_flags("'`' is no `nonsense`"), "'`' is no `nonsense`");
    }
}
