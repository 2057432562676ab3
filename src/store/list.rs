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

/// The objects below a folder, by name: all of them, or those whose names behind it fit a pattern (`*` within a name,
/// `**` through folders). What begins with `_` or `.` is left out, unless a pattern names it.
///
/// # Errors
///
/// Where nothing can be listed; nothing found is no error.
pub fn list(folder: &Path, pattern: Option<&str>, stop: &Stop) -> Result<Vec<Object>, Error> {
    let location = Location::of(folder)?;
    if location.web {
        return Err(Error::new(
            Kind::Unsupported,
            "a web server cannot be asked which files it has: name them",
        ));
    }
    let pattern = match pattern {
        Some(rest) => {
            let key = location.key.as_ref();
            let whole = if key.is_empty() { rest.into() } else { format!("{}/{rest}", Pattern::escape(key)) };
            let pattern = Pattern::new(&whole);
            Some(pattern.map_err(|error| Error::failed(format!("this is no pattern: {error}")))?)
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
