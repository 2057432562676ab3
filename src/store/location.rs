//! Addresses, and the stores behind them.

use crate::error::Error;
use crate::runtime::runtime;
use crate::settings;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::client::ClientConfigKey;
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreScheme};
use std::path::Path;
use std::sync::Arc;
use url::{Position, Url};

/// An address whose store can be asked.
#[derive(Debug, Clone)]
pub(crate) struct Location {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) key: Key,
    /// The address without its key, so that a key makes an address again.
    pub(crate) base: String,
    /// Whether it is a plain web server: it can neither list nor be written to.
    pub(crate) web: bool,
}

impl Location {
    pub(crate) fn of(path: &Path) -> Result<Self, Error> {
        // A client can be made only where the runtime has said who does the cryptography.
        runtime()?;
        let text = path.to_str().ok_or_else(|| Error::failed("the address is not UTF-8"))?;
        let url = Url::parse(text).map_err(|error| Error::failed(format!("this is no address ({error})")))?;
        if url.password().is_some() || !url.username().is_empty() && url.scheme().starts_with("http") {
            return Err(Error::failed("an address holds no passwords: give credentials in the environment"));
        }
        // A query may be a signature; the client would leave it out, and logs would keep it.
        if url.query().is_some() {
            return Err(Error::failed("addresses with a question mark are not taken: fetch the file first"));
        }
        if url.host_str().is_none() {
            return Err(Error::failed("the address names no bucket or host"));
        }
        let (scheme, key) =
            ObjectStoreScheme::parse(&url).map_err(|error| Error::failed(error.to_string()))?;
        let plain = url[..Position::BeforePath].starts_with("http://");
        let made: Result<Arc<dyn ObjectStore>, object_store::Error> = match scheme {
            ObjectStoreScheme::AmazonS3 => amazon(text).build().map(|store| Arc::new(store) as _),
            ObjectStoreScheme::GoogleCloudStorage => google(text).build().map(|store| Arc::new(store) as _),
            ObjectStoreScheme::MicrosoftAzure => azure(text).build().map(|store| Arc::new(store) as _),
            ObjectStoreScheme::Http => {
                let mut builder = HttpBuilder::new().with_url(&url[..Position::BeforePath]);
                for (option, value) in settings::client() {
                    builder = builder.with_config(option, value);
                }
                builder = builder.with_config(ClientConfigKey::AllowHttp, plain.to_string());
                builder.with_retry(settings::retry()).build().map(|store| Arc::new(store) as _)
            }
            _ => return Err(Error::failed("this kind of address is not known")),
        };
        let store = made.map_err(|error| Error::failed(format!("the store cannot be used: {error}")))?;
        let web = scheme == ObjectStoreScheme::Http;
        let trimmed = url.as_str().trim_end_matches('/');
        let encoded = url.path().trim_matches('/');
        let base = trimmed.strip_suffix(encoded).unwrap_or(trimmed).trim_end_matches('/').to_string();
        // Where the bucket is part of the path, the key is shorter than the path.
        let bucket = encoded.len().saturating_sub(key.as_ref().len());
        let base = match !web && url.scheme() == "https" && bucket > 0 {
            true => format!("{base}/{}", encoded[..bucket].trim_matches('/')),
            false => base,
        };
        Ok(Location { store, key, base, web })
    }
}

/// Whether any of these is in the environment.
fn given(names: &[&str]) -> bool {
    names.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Without credentials in the environment, objects are asked for as anybody may: nothing else is looked at.
fn amazon(url: &str) -> AmazonS3Builder {
    let mut builder = AmazonS3Builder::from_env().with_url(url).with_retry(settings::retry());
    for (option, value) in settings::client() {
        builder = builder.with_config(AmazonS3ConfigKey::Client(option), value);
    }
    let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint).unwrap_or_default();
    if endpoint.starts_with("http://") {
        builder = builder.with_allow_http(true);
    }
    let known = [
        "AWS_ACCESS_KEY_ID",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    ];
    if given(&known) { builder } else { builder.with_skip_signature(true) }
}

fn google(url: &str) -> GoogleCloudStorageBuilder {
    let mut builder = GoogleCloudStorageBuilder::from_env().with_url(url).with_retry(settings::retry());
    for (option, value) in settings::client() {
        builder = builder.with_config(GoogleConfigKey::Client(option), value);
    }
    let known = [
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_SERVICE_ACCOUNT",
        "GOOGLE_SERVICE_ACCOUNT_PATH",
        "GOOGLE_SERVICE_ACCOUNT_KEY",
        "SERVICE_ACCOUNT",
    ];
    if given(&known) { builder } else { builder.with_skip_signature(true) }
}

fn azure(url: &str) -> MicrosoftAzureBuilder {
    let mut builder = MicrosoftAzureBuilder::from_env().with_url(url).with_retry(settings::retry());
    for (option, value) in settings::client() {
        builder = builder.with_config(AzureConfigKey::Client(option), value);
    }
    let known = [
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_ACCESS_KEY",
        "AZURE_STORAGE_SAS_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_STORAGE_CLIENT_ID",
        "AZURE_CLIENT_ID",
        "AZURE_STORAGE_TOKEN",
        "AZURE_FEDERATED_TOKEN_FILE",
    ];
    if given(&known) { builder } else { builder.with_skip_signature(true) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_addresses_are_refused_without_being_printed() {
        for text in ["https://user:secret@host/f.csv", "https://host/f.csv?X-Amz-Signature=secret"] {
            let said = Location::of(Path::new(text)).unwrap_err().to_string();
            assert!(!said.contains("secret"), "{said}");
        }
    }

    #[test]
    fn a_key_makes_an_address_again() {
        let base = |text: &str| Location::of(Path::new(text)).unwrap().base;
        assert_eq!(base("s3://bucket/some/dir/"), "s3://bucket");
        assert_eq!(base("s3://bucket"), "s3://bucket");
        assert_eq!(base("https://host:8080/a/b.csv"), "https://host:8080");
        assert_eq!(
            base("https://s3.eu-west-1.amazonaws.com/bucket/a/b"),
            "https://s3.eu-west-1.amazonaws.com/bucket"
        );
    }
}
