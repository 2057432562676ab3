//! Which objects are there: below a name, or by a pattern.

use crate::error::{Error, Kind};
use crate::location::Location;
use crate::object::Object;
use crate::runtime::{Stop, wait};
use futures_util::TryStreamExt;
use glob::{MatchOptions, Pattern};
use object_store::path::Path as Key;
use object_store::{ObjectMeta, ObjectStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// More objects than this are no table.
const MOST: usize = 1_000_000;

/// Whether a path is a pattern: it has a `*`, or `[` and `]`.
fn is_pattern(path: &Path) -> bool {
    let text = path.to_string_lossy();
    text.contains('*') || text.contains('[') && text.contains(']')
}

/// The objects below an address, or those that a pattern names (`*` within a name, `**` through folders), by name.
/// What begins with `_` or `.` is left out, unless the pattern names it.
///
/// # Errors
///
/// Where nothing can be listed; nothing found is no error.
pub fn list(url: &Path, stop: &Stop) -> Result<Vec<Object>, Error> {
    let location = Location::of(&bare(url))?;
    if location.web {
        return Err(Error::new(
            Kind::Unsupported,
            "a web server cannot be asked which files it has: name them",
        ));
    }
    let text = url.to_string_lossy().into_owned();
    let pattern = is_pattern(url).then(|| text[bare_length(&text)..].trim_start_matches('/').to_string());
    let pattern = match pattern {
        Some(rest) => {
            let key = location.key.as_ref();
            let whole = if key.is_empty() { rest } else { format!("{}/{rest}", Pattern::escape(key)) };
            Some(
                Pattern::new(&whole)
                    .map_err(|error| Error::failed(format!("this pattern is none: {error}")))?,
            )
        }
        None => None,
    };
    let (store, prefix) = (Arc::clone(&location.store), location.key.clone());
    let mut found = wait(async move { all(&*store, &prefix).await }, stop)?;
    let options = MatchOptions { require_literal_separator: true, ..MatchOptions::default() };
    found.retain(|about| match &pattern {
        Some(pattern) => pattern.matches_with(about.location.as_ref(), options),
        None => {
            let inside = about.location.prefix_match(&location.key);
            let hidden = |part: &str| part.starts_with(['_', '.']);
            inside.is_some_and(|mut parts| !parts.any(|part| hidden(part.as_ref())))
        }
    });
    // An empty object is what consoles make of a folder.
    found.retain(|about| about.size > 0);
    found.sort_by(|a, b| a.location.cmp(&b.location));
    let object = |about: ObjectMeta| {
        let url = PathBuf::from(format!("{}/{}", location.base, about.location));
        Object::listed(&location, about, url, stop)
    };
    Ok(found.into_iter().map(object).collect())
}

async fn all(store: &dyn ObjectStore, prefix: &Key) -> Result<Vec<ObjectMeta>, Error> {
    let mut listing = store.list(Some(prefix));
    let mut found = Vec::new();
    while let Some(about) = listing.try_next().await? {
        found.push(about);
        if found.len() > MOST {
            return Err(Error::failed("there are more than a million objects: name fewer of them"));
        }
    }
    Ok(found)
}

/// Where the part of an address ends that holds no pattern: at the last slash before it.
fn bare_length(text: &str) -> usize {
    let first = text.find(['*', '[']).unwrap_or(text.len());
    text[..first].rfind('/').map_or(first, |at| at + 1)
}

fn bare(url: &Path) -> PathBuf {
    let text = url.to_string_lossy();
    if is_pattern(url) { PathBuf::from(&text[..bare_length(&text)]) } else { url.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_end_where_folders_do() {
        let bare = |text: &str| bare(Path::new(text)).to_string_lossy().into_owned();
        assert_eq!(bare("s3://bucket/year=2024/*.parquet"), "s3://bucket/year=2024/");
        assert_eq!(bare("s3://bucket/a*/b.csv"), "s3://bucket/");
        assert_eq!(bare("s3://bucket/plain.csv"), "s3://bucket/plain.csv");
        assert!(is_pattern(Path::new("s3://b/[ab].csv")) && !is_pattern(Path::new("s3://b/[a.csv")));
    }
}
