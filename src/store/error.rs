//! What went wrong with a store, in one sentence.

use std::fmt;

/// The kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Somebody asked to stop.
    Stopped,
    /// There is no such object.
    Absent,
    /// The object is there already.
    Exists,
    /// The object is not the one that it was.
    Changed,
    /// The store cannot do this.
    Unsupported,
    /// Anything else: no access, no connection, a wrong address.
    Failed,
}

/// A failure, without the address, which whoever asked knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Its kind.
    pub kind: Kind,
    what: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Error {}

impl Error {
    pub(crate) fn new(kind: Kind, what: impl Into<String>) -> Self {
        Error { kind, what: what.into() }
    }

    pub(crate) fn failed(what: impl Into<String>) -> Self {
        Error::new(Kind::Failed, what)
    }

    pub(crate) fn stopped() -> Self {
        Error::new(Kind::Stopped, "interrupted")
    }

    pub(crate) fn changed() -> Self {
        Error::new(Kind::Changed, "the object was changed while it was read: run the command again")
    }
}

impl From<object_store::Error> for Error {
    fn from(error: object_store::Error) -> Self {
        use object_store::Error as E;
        match &error {
            E::NotFound { .. } => {
                Error::new(Kind::Absent, "there is no such object: check the bucket and the name")
            }
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => denied(),
            E::AlreadyExists { .. } => Error::new(Kind::Exists, "the object exists already"),
            E::Precondition { .. } | E::NotModified { .. } => Error::changed(),
            E::NotSupported { .. } | E::NotImplemented { .. } => {
                Error::new(Kind::Unsupported, "the store cannot do this")
            }
            E::InvalidPath { source } => Error::failed(format!("this is no name of an object ({source})")),
            _ => explain(&causes(&error)),
        }
    }
}

fn denied() -> Error {
    Error::failed(
        "access is denied: check the credentials in the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, \
         GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY) and what they allow",
    )
}

/// The innermost cause, which says most; the ones around it repeat addresses and numbers of retries.
fn causes(error: &dyn std::error::Error) -> Vec<String> {
    let mut said = vec![error.to_string()];
    let mut next = error.source();
    while let Some(error) = next {
        said.push(error.to_string());
        next = error.source();
    }
    said
}

fn explain(causes: &[String]) -> Error {
    let has = |words: &[&str]| causes.iter().any(|cause| words.iter().any(|word| cause.contains(word)));
    if has(&["configured region", "AuthorizationHeaderMalformed", "PermanentRedirect"]) {
        return Error::failed("the bucket is in another region: set AWS_REGION to it");
    }
    if has(&["401 Unauthorized", "403 Forbidden", "InvalidAccessKeyId", "SignatureDoesNotMatch"]) {
        return denied();
    }
    if has(&["dns error", "failed to lookup address"]) {
        return Error::failed("the host is not known: check the address, the endpoint and the network");
    }
    if has(&["Connection refused"]) {
        return Error::failed("the connection is refused: is the endpoint right, and the server running?");
    }
    if has(&["certificate"]) {
        return Error::failed("the server's certificate is not accepted: check the address and the clock");
    }
    if has(&["timed out", "operation timed out", "Timeout"]) {
        return Error::failed(
            "the store does not answer in time: try again later, or set TENFILL_STORE_TIMEOUT",
        );
    }
    let last = causes.last().map_or("", String::as_str);
    let short: String = last.chars().take(200).collect();
    Error::failed(format!("the connection to the store failed ({short}): try again"))
}
