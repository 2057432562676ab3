//! Progress on a terminal: a bar with rows, bytes and time left.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::HashSet;
use std::fmt;
use std::io::IsTerminal;
use std::sync::{Mutex, MutexGuard};
use tenfill_engine::control::{Progress, Unit};
use tenfill_engine::message::printable;

/// Bars on standard error, where that is a terminal; messages in any case but quiet.
pub(super) struct Bars {
    bar: Mutex<Option<ProgressBar>>,
    quiet: bool,
    visible: bool,
    verbose: bool,
    /// What was said: nothing is said twice.
    said: Mutex<HashSet<String>>,
}

impl Bars {
    pub(super) fn new(quiet: bool, verbose: bool) -> Self {
        let visible = !quiet && std::io::stderr().is_terminal();
        Bars { bar: Mutex::new(None), quiet, visible, verbose, said: Mutex::default() }
    }

    /// Removes the bar.
    pub(super) fn clear(&self) {
        if let Ok(mut bar) = self.bar.lock()
            && let Some(bar) = bar.take()
        {
            bar.finish_and_clear();
        }
    }
}

impl Progress for Bars {
    fn stage(&self, name: &str, unit: Unit, total: u64) {
        self.clear();
        if self.verbose && !self.visible {
            super::tell(format_args!("{name} ..."));
        }
        if !self.visible {
            return;
        }
        let counts = match unit {
            Unit::Bytes => "{bytes} of {total_bytes}  {bytes_per_sec}",
            Unit::Rows => "{human_pos} of {human_len}  {per_sec}",
            Unit::Iterations => "{pos} of {len}",
        };
        let template = if total > 0 {
            format!("{{prefix:8}} [{{bar:24}}] {counts}  {{msg}}  {{eta}} left")
        } else if unit == Unit::Iterations {
            "{prefix:8} {spinner} iteration {pos}  {msg}  {elapsed}".to_string()
        } else {
            "{prefix:8} {spinner} {human_pos}  {msg}".to_string()
        };
        let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr())
            .with_style(style.progress_chars("=> "));
        bar.set_prefix(name.to_string());
        if let Ok(mut slot) = self.bar.lock() {
            *slot = Some(bar);
        }
    }

    fn advance(&self, done: u64, note: &dyn fmt::Display) {
        if !self.visible {
            return;
        }
        if let Ok(bar) = self.bar.lock()
            && let Some(bar) = &*bar
        {
            bar.set_message(note.to_string());
            bar.set_position(done);
        }
    }

    fn say(&self, message: &str) {
        let is_new = |mut said: MutexGuard<'_, HashSet<String>>| said.insert(message.into());
        if self.quiet || !self.said.lock().map_or(true, is_new) {
            return;
        }
        match self.bar.lock() {
            Ok(bar) if self.visible && bar.is_some() => {
                bar.iter().for_each(|bar| bar.println(printable(&super::flags::in_flags(message))));
            }
            _ => super::tell(message),
        }
    }

    fn detail(&self, message: &str) {
        if self.verbose {
            self.say(message);
        }
    }
}
