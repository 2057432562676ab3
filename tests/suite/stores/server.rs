//! A store on this machine that can be slow, forgetful and strict: a web server, and as much of S3 as tests need.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How the server behaves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manners {
    /// So many answers break off in the middle.
    pub cut: usize,
    /// So many answers break off before their first byte.
    pub empty: usize,
    /// So many requests are not answered at all.
    pub stall: usize,
    /// So many requests are answered with 503.
    pub busy: usize,
    /// Every object is another one after so many bodies.
    pub change_after: Option<usize>,
    /// Ranges are ignored, as simple servers do.
    pub no_ranges: bool,
    /// Every request is answered with this.
    pub refuse: Option<&'static str>,
    /// Bytes of objects never come, and parts of objects are never taken.
    pub stall_bytes: bool,
    /// Parts of objects are answered with this.
    pub refuse_parts: Option<&'static str>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Vec<u8>>,
    manners: Manners,
    bodies: usize,
    requests: Vec<String>,
    /// The parts of an object that is being written, by their numbers.
    parts: BTreeMap<usize, Vec<u8>>,
}

/// The server; it serves until the process ends.
pub struct Server {
    state: Arc<Mutex<State>>,
    port: u16,
}

impl Server {
    pub fn start(manners: Manners) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Mutex::new(State { manners, ..State::default() }));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Server { state, port }
    }

    pub fn with(self, name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.state.lock().unwrap().objects.insert(name.into(), bytes.into());
        self
    }

    pub fn object(&self, name: &str) -> Option<Vec<u8>> {
        self.state.lock().unwrap().objects.get(name).cloned()
    }

    pub fn requests(&self) -> Vec<String> {
        self.state.lock().unwrap().requests.clone()
    }

    /// The address of an object of the web server.
    pub fn web(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}/{name}", self.port)
    }

    /// The endpoint of the store.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

fn serve(stream: TcpStream, shared: &Mutex<State>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    // One connection may carry several requests.
    while let Some(request) = Request::read(&mut reader) {
        if answer(&request, &mut stream, shared).is_none() {
            return;
        }
    }
}

struct Request {
    method: String,
    path: String,
    query: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Request {
    fn read(reader: &mut BufReader<TcpStream>) -> Option<Self> {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|&count| count > 0)?;
        let mut words = line.split_whitespace();
        let (method, target) = (words.next()?.to_string(), words.next()?.to_string());
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.insert(name.to_lowercase(), value.trim().to_string());
        }
        let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        Some(Request {
            method,
            path: path.trim_start_matches('/').replace("%3D", "="),
            query: query.into(),
            headers,
            body,
        })
    }
}

/// `None` where the connection is given up.
fn answer(request: &Request, stream: &mut TcpStream, shared: &Mutex<State>) -> Option<()> {
    let mut state = shared.lock().unwrap();
    state.requests.push(format!("{} {}?{}", request.method, request.path, request.query));
    if state.manners.stall > 0 {
        state.manners.stall -= 1;
        drop(state);
        std::thread::sleep(Duration::from_secs(20));
        return None;
    }
    if let Some(status) = state.manners.refuse {
        return plain(stream, status, "");
    }
    if state.manners.busy > 0 {
        state.manners.busy -= 1;
        return plain(stream, "503 Service Unavailable", "");
    }
    let part = request.query.split('&').find_map(|pair| pair.strip_prefix("partNumber="));
    let bytes_move = part.is_some() || request.method == "GET" && !request.query.contains("list-type");
    if state.manners.stall_bytes && bytes_move {
        drop(state);
        std::thread::sleep(Duration::from_secs(20));
        return None;
    }
    if let (Some(status), true) = (state.manners.refuse_parts, part.is_some()) {
        return plain(stream, status, "");
    }
    if let Some(number) = part {
        state.parts.insert(number.parse().unwrap(), request.body.clone());
        return write(stream, "200 OK\r\nETag: \"part\"\r\nContent-Length: 0", b"");
    }
    if request.method == "POST" && request.query.starts_with("uploads") {
        let begun = "<?xml version=\"1.0\"?><InitiateMultipartUploadResult><UploadId>one</UploadId>\
                     </InitiateMultipartUploadResult>";
        return plain(stream, "200 OK", begun);
    }
    if request.method == "POST" {
        let whole = std::mem::take(&mut state.parts).into_values().flatten().collect();
        state.objects.insert(request.path.clone(), whole);
        let done = "<?xml version=\"1.0\"?><CompleteMultipartUploadResult><ETag>\"new\"</ETag>\
                    </CompleteMultipartUploadResult>";
        return plain(stream, "200 OK", done);
    }
    if request.method == "DELETE" {
        state.parts.clear();
        return plain(stream, "204 No Content", "");
    }
    if request.method == "PUT" {
        let there = state.objects.contains_key(&request.path);
        if there && request.headers.contains_key("if-none-match") {
            return plain(stream, "412 Precondition Failed", "");
        }
        state.objects.insert(request.path.clone(), request.body.clone());
        return write(stream, "200 OK\r\nETag: \"new\"\r\nContent-Length: 0", b"");
    }
    if request.query.contains("list-type=2") {
        let listing = listing(&state, request);
        return plain(stream, "200 OK", &listing);
    }
    let Some(bytes) = state.objects.get(&request.path).cloned() else {
        return plain(stream, "404 Not Found", "");
    };
    let changed = state.manners.change_after.is_some_and(|after| state.bodies >= after);
    let tag = if changed { "\"second\"" } else { "\"first\"" };
    if request.headers.get("if-match").is_some_and(|wanted| wanted != tag) {
        return plain(stream, "412 Precondition Failed", "");
    }
    let about = format!("ETag: {tag}\r\nLast-Modified: Tue, 17 Nov 2026 10:00:00 GMT");
    if request.method == "HEAD" {
        return write(stream, &format!("200 OK\r\n{about}\r\nContent-Length: {}", bytes.len()), b"");
    }
    state.bodies += 1;
    let range = request.headers.get("range").filter(|_| !state.manners.no_ranges);
    let range = range.and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let (head, body) = match range {
        Some((from, to)) => {
            let from: usize = from.parse().unwrap();
            let to = to.parse::<usize>().unwrap().min(bytes.len() - 1);
            let place = format!("Content-Range: bytes {from}-{to}/{}", bytes.len());
            (format!("206 Partial Content\r\n{about}\r\n{place}"), &bytes[from..=to])
        }
        None => (format!("200 OK\r\n{about}"), &bytes[..]),
    };
    let head = format!("{head}\r\nContent-Length: {}", body.len());
    if state.manners.empty > 0 {
        state.manners.empty -= 1;
        write(stream, &head, b"")?;
        return None;
    }
    if state.manners.cut > 0 && body.len() > 1 {
        state.manners.cut -= 1;
        write(stream, &head, &body[..body.len() / 2])?;
        return None;
    }
    let body = body.to_vec();
    drop(state);
    write(stream, &head, &body)
}

fn listing(state: &State, request: &Request) -> String {
    let prefix = request.query.split('&').find_map(|pair| pair.strip_prefix("prefix=")).unwrap_or("");
    let wanted = format!("{}/{}", request.path, prefix.replace("%2F", "/").replace("%3D", "="));
    let contents: String = state
        .objects
        .iter()
        .filter(|(name, _)| name.starts_with(&wanted))
        .map(|(name, bytes)| {
            let key = name.strip_prefix(&format!("{}/", request.path)).unwrap();
            format!(
                "<Contents><Key>{key}</Key><Size>{}</Size><LastModified>2026-11-17T10:00:00.000Z</LastModified>\
                 <ETag>\"first\"</ETag></Contents>",
                bytes.len()
            )
        })
        .collect();
    format!(
        "<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>"
    )
}

fn plain(stream: &mut TcpStream, status: &str, body: &str) -> Option<()> {
    write(stream, &format!("{status}\r\nContent-Length: {}", body.len()), body.as_bytes())
}

fn write(stream: &mut TcpStream, head: &str, body: &[u8]) -> Option<()> {
    stream.write_all(format!("HTTP/1.1 {head}\r\n\r\n").as_bytes()).ok()?;
    stream.write_all(body).ok()?;
    stream.flush().ok()
}
