//! One object, and whether it is still the same.

use crate::error::{Error, Kind};
use crate::location::Location;
use crate::runtime::{Stop, wait};
use crate::settings;
use bytes::Bytes;
use object_store::path::Path as Key;
use object_store::{GetOptions, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An object as it was when it was opened: what is read later is of the same version, or an error.
#[derive(Clone)]
pub struct Object {
    pub(crate) inner: Arc<Inner>,
    pub(crate) stop: Stop,
}

#[derive(Debug)]
pub(crate) struct Inner {
    store: Arc<dyn ObjectStore>,
    key: Key,
    size: u64,
    /// What every version has of its own, where the store says so.
    tag: Option<String>,
    url: PathBuf,
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}

impl Object {
    /// Finds an object.
    ///
    /// # Errors
    ///
    /// Where there is none, or the store cannot be asked.
    pub fn open(url: &Path, stop: &Stop) -> Result<Self, Error> {
        let location = Location::of(url)?;
        let (store, key) = (Arc::clone(&location.store), location.key.clone());
        let about = wait(async move { store.head(&key).await.map_err(Error::from) }, stop)?;
        Ok(Object::listed(&location, about, url.into(), stop))
    }

    pub(crate) fn listed(location: &Location, about: ObjectMeta, url: PathBuf, stop: &Stop) -> Self {
        let (store, key) = (Arc::clone(&location.store), about.location);
        let inner = Inner { store, key, size: about.size, tag: about.e_tag, url };
        Object { inner: Arc::new(inner), stop: Arc::clone(stop) }
    }

    /// Its number of bytes.
    pub fn size(&self) -> u64 {
        self.inner.size
    }

    /// Its address.
    pub fn url(&self) -> &Path {
        &self.inner.url
    }

    /// Some of its bytes; fewer where it ends.
    ///
    /// # Errors
    ///
    /// Where the object has changed, or the store does not give the bytes.
    pub fn range(&self, range: Range<u64>) -> Result<Bytes, Error> {
        let inner = Arc::clone(&self.inner);
        wait(async move { inner.range(range).await }, &self.stop)
    }
}

impl Inner {
    pub(crate) async fn range(&self, range: Range<u64>) -> Result<Bytes, Error> {
        let range = range.start..range.end.min(self.size);
        if range.start >= range.end {
            return Ok(Bytes::new());
        }
        let mut attempt = 0;
        loop {
            let read = self.attempt(range.clone()).await;
            match read {
                // Requests are made again by the client; a body that breaks off is asked for again here.
                Err(error) if error.kind == Kind::Failed && attempt < settings::retries() => {
                    tokio::time::sleep(settings::pause(attempt)).await;
                    attempt += 1;
                }
                other => return other,
            }
        }
    }

    async fn attempt(&self, range: Range<u64>) -> Result<Bytes, Error> {
        let wanted = range.end - range.start;
        let got = self.get(GetOptions::new().with_range(Some(range))).await?;
        let bytes = got.bytes().await?;
        if bytes.len() as u64 != wanted {
            return Err(Error::failed("the store has sent another number of bytes: try again"));
        }
        Ok(bytes)
    }

    /// Asks for the same version.
    pub(crate) async fn get(&self, options: GetOptions) -> Result<GetResult, Error> {
        // A weak tag never matches a condition; it is compared afterwards, as is the size.
        let strong = self.tag.as_ref().filter(|tag| !tag.starts_with("W/"));
        let got = self.store.get_opts(&self.key, options.with_if_match(strong.cloned())).await?;
        let same = got.meta.size == self.size && (self.tag.is_none() || got.meta.e_tag == self.tag);
        if same { Ok(got) } else { Err(Error::changed()) }
    }
}
