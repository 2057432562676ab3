//! Inputs and outputs in object stores, whatever the store does.

mod server;

use crate::common::{bytes, contents, folder, stderr, tenfill};
use server::{Manners, Server};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// More than one window, so that requests follow each other.
fn ratings(rows: usize) -> String {
    let mut text = String::from("user,film,rating\n");
    for row in 0..rows {
        text += &format!("user-{:07},film-{:04},{}\n", row / 20, (row * 7) % 1999, row % 5 + 1);
    }
    text
}

/// A small Parquet file.
fn parquet(values: &[f64]) -> Vec<u8> {
    use arrow_array::{Float64Array, Int64Array, RecordBatch};
    use std::sync::Arc;
    let rows = values.len() as i64;
    let batch = RecordBatch::try_from_iter([
        ("sensor", Arc::new((0..rows).map(|row| row / 4).collect::<Int64Array>()) as arrow_array::ArrayRef),
        ("hour", Arc::new((0..rows).map(|row| row % 4).collect::<Int64Array>()) as _),
        ("reading", Arc::new(Float64Array::from(values.to_vec())) as _),
    ])
    .unwrap();
    let mut out = Vec::new();
    let mut writer = parquet::arrow::ArrowWriter::try_new(&mut out, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    out
}

/// The program, with nothing of the environment but the server's endpoint.
fn ask(place: &Path, server: &Server, arguments: &str) -> Output {
    program(place, server, arguments).output().unwrap()
}

fn program(place: &Path, server: &Server, arguments: &str) -> Command {
    let mut command = tenfill(place);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
        command.env_remove(name);
    }
    command.env("AWS_ENDPOINT_URL", server.endpoint()).env("AWS_REGION", "us-east-1");
    command.env("TENFILL_STORE_TIMEOUT", "1").env("TENFILL_STORE_RETRIES", "3");
    command.args(arguments.split_whitespace());
    command
}

/// Interrupts the program as soon as the server was asked for something; what it says then, and its exit code. It does
/// not wait for the store, which would take longer than this does.
fn interrupted(place: &Path, server: &Server, arguments: &str, asked: &str) -> (String, Option<i32>) {
    let mut command = program(place, server, arguments);
    command.env("TENFILL_STORE_TIMEOUT", "60").stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let start = Instant::now();
    let waits = |start: Instant| {
        assert!(start.elapsed() < Duration::from_secs(60), "{arguments}: {:?}", server.requests());
        std::thread::sleep(Duration::from_millis(10));
    };
    while !server.requests().iter().any(|request| request.contains(asked)) {
        waits(start);
    }
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        // A store that is silent is given up after twenty seconds, and asked again.
        assert!(start.elapsed() < Duration::from_secs(15), "{arguments}: it does not end");
        waits(start);
    }
    let output = child.wait_with_output().unwrap();
    (stderr(&output), output.status.code())
}

fn fine(place: &Path, server: &Server, arguments: &str) -> String {
    let output = ask(place, server, arguments);
    assert!(output.status.success(), "{arguments}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn fails(place: &Path, server: &Server, arguments: &str, said: &str) {
    let output = ask(place, server, arguments);
    let all = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{arguments}: {all}");
    let lines = all.lines().filter(|line| !line.starts_with("taking ")).count();
    assert!(all.contains(said) && lines == 1, "{arguments}: {all}");
}

#[test]
fn an_object_gives_the_dataset_of_the_file() {
    let place = folder();
    let text = ratings(300_000);
    std::fs::write(place.path().join("local.csv"), &text).unwrap();
    let packed = {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, text.as_bytes()).unwrap();
        packed.finish().unwrap()
    };
    let server = Server::start(Manners::default()).with("bucket/r.csv", text).with("bucket/r.csv.gz", packed);
    fine(place.path(), &server, "convert local.csv -o local.tenfill");
    fine(place.path(), &server, "convert s3://bucket/r.csv -o far.tenfill");
    fine(place.path(), &server, &format!("convert {} -o web.tenfill", server.web("bucket/r.csv.gz")));
    let expected = bytes(&place.path().join("local.tenfill"));
    assert_eq!(bytes(&place.path().join("far.tenfill")), expected);
    assert_eq!(bytes(&place.path().join("web.tenfill")), expected);
}

#[test]
fn a_store_with_bad_manners_gives_the_same() {
    let place = folder();
    let text = ratings(300_000);
    std::fs::write(place.path().join("local.csv"), &text).unwrap();
    let quiet = Server::start(Manners::default());
    fine(place.path(), &quiet, "convert local.csv -o local.tenfill");
    let expected = bytes(&place.path().join("local.tenfill"));
    let manners = [
        Manners { cut: 2, ..Manners::default() },
        Manners { stall: 1, ..Manners::default() },
        Manners { busy: 2, ..Manners::default() },
        Manners { no_ranges: true, ..Manners::default() },
    ];
    for (number, manners) in manners.into_iter().enumerate() {
        let server = Server::start(manners).with("r.csv", text.clone());
        fine(place.path(), &server, &format!("convert {} -o {number}.tenfill", server.web("r.csv")));
        assert_eq!(bytes(&place.path().join(format!("{number}.tenfill"))), expected, "{manners:?}");
    }
}

#[test]
fn what_a_store_refuses_is_one_sentence() {
    let place = folder();
    let text = ratings(300_000);
    let web = |server: &Server| format!("convert {} -o out.tenfill", server.web("r.csv"));
    let cases = [
        (Manners { refuse: Some("403 Forbidden"), ..Manners::default() }, "access is denied"),
        (Manners { refuse: Some("401 Unauthorized"), ..Manners::default() }, "access is denied"),
        (Manners { empty: 99, ..Manners::default() }, "try again"),
        (Manners { stall: 99, ..Manners::default() }, "does not answer in time"),
        (Manners { busy: 99, ..Manners::default() }, "try again"),
        (Manners { change_after: Some(2), ..Manners::default() }, "changed while it was read"),
    ];
    for (manners, said) in cases {
        let server = Server::start(manners).with("r.csv", text.clone());
        fails(place.path(), &server, &web(&server), said);
    }
    let server = Server::start(Manners::default());
    fails(place.path(), &server, &web(&server), "there is no such object");
    fails(place.path(), &server, "convert s3://bucket/*.csv -o out.tenfill", "no object has such a name");
    let redirect = Server::start(Manners { refuse: Some("301 Moved Permanently"), ..Manners::default() });
    fails(
        place.path(),
        &redirect,
        "convert s3://bucket/r.csv -o out.tenfill",
        "another region: set AWS_REGION",
    );
    fails(place.path(), &server, "convert http://127.0.0.1:1/r.csv -o out.tenfill", "connection is refused");
    assert!(!place.path().join("out.tenfill").exists());
}

#[test]
fn parquet_parts_and_their_folders_are_one_table() {
    let place = folder();
    let values: Vec<f64> = (0..40).map(f64::from).collect();
    let server = Server::start(Manners::default())
        .with("lake/t/year=2023/a.parquet", parquet(&values[..20]))
        .with("lake/t/year=2024/b.parquet", parquet(&values[20..]))
        .with("lake/t/_SUCCESS", "x");
    for (year, name, values) in [("2023", "a", &values[..20]), ("2024", "b", &values[20..])] {
        let folder = place.path().join("t").join(format!("year={year}"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{name}.parquet")), parquet(values)).unwrap();
    }
    let options = "--modes sensor,hour,year --value reading --split none";
    fine(place.path(), &server, &format!("convert t -o local.tenfill {options}"));
    fine(place.path(), &server, &format!("convert s3://lake/t/ -o far.tenfill {options}"));
    fine(place.path(), &server, &format!("convert s3://lake/t/year=*/*.parquet -o glob.tenfill {options}"));
    let local = contents(&place.path().join("local.tenfill"));
    assert_eq!(local.len(), 40);
    assert!(local.contains_key(["0".to_string(), "1".into(), "2024".into()].as_slice()), "{local:?}");
    assert_eq!(contents(&place.path().join("far.tenfill")), local);
    assert_eq!(contents(&place.path().join("glob.tenfill")), local);
}

#[test]
fn questions_come_from_a_store_and_answers_go_there() {
    let place = folder();
    let text = ratings(4_000);
    let server =
        Server::start(Manners::default()).with("bucket/ask.csv", "user,film\nuser-0000001,film-0140\n");
    std::fs::write(place.path().join("r.csv"), text).unwrap();
    fine(place.path(), &server, "complete r.csv -o run --rank 2 --max-iterations 2");
    let here = fine(place.path(), &server, "predict run s3://bucket/ask.csv");
    fine(place.path(), &server, "predict run s3://bucket/ask.csv -o s3://bucket/answers.csv");
    assert_eq!(String::from_utf8(server.object("bucket/answers.csv").unwrap()).unwrap(), here);
    fails(
        place.path(),
        &server,
        "predict run s3://bucket/ask.csv -o s3://bucket/answers.csv",
        "exists already: --force replaces it",
    );
    fails(
        place.path(),
        &server,
        "predict run s3://bucket/ask.csv -o s3://bucket/ask.csv --force",
        "is an input (s3://bucket/ask.csv): give the output another name",
    );
    let web = format!("predict run s3://bucket/ask.csv -o {}", server.web("x.csv"));
    fails(place.path(), &server, &web, "a web address cannot be written to");
    assert!(server.requests().iter().all(|request| !request.starts_with("DELETE")));
}

/// A run, and more questions than fit into one part of an object.
fn many_questions(place: &Path, server: &Server) {
    std::fs::write(place.join("r.csv"), ratings(4_000)).unwrap();
    fine(place, server, "complete r.csv -o run --rank 2 --max-iterations 2");
    let ask =
        format!("user,film,note\n{}", format!("user-0000001,film-0140,{}\n", "x".repeat(500)).repeat(40_000));
    std::fs::write(place.join("ask.csv"), ask).unwrap();
}

#[test]
fn a_large_answer_goes_in_parts_and_is_whole_or_absent() {
    let place = folder();
    let quiet = Server::start(Manners::default());
    many_questions(place.path(), &quiet);
    let line = "predict run ask.csv -o s3://bucket/answers.csv";
    fine(place.path(), &quiet, "predict run ask.csv -o here.csv");
    fine(place.path(), &quiet, line);
    assert!(
        quiet.object("bucket/answers.csv").unwrap() == std::fs::read(place.path().join("here.csv")).unwrap()
    );
    let parts = quiet.requests().iter().filter(|request| request.contains("partNumber=")).count();
    assert_eq!(parts, 2);
    let taken_back = |server: &Server| {
        let requests = server.requests();
        assert!(
            requests.iter().any(|request| request.starts_with("DELETE bucket/answers.csv?uploadId=")),
            "{requests:?}"
        );
        assert_eq!(server.object("bucket/answers.csv"), None);
    };
    // Refused in the middle, or interrupted there: nothing is left, and the parts are taken back.
    let strict = Server::start(Manners { refuse_parts: Some("403 Forbidden"), ..Manners::default() });
    fails(place.path(), &strict, line, "access is denied");
    taken_back(&strict);
    let silent = Server::start(Manners { stall_bytes: true, ..Manners::default() });
    let said = interrupted(place.path(), &silent, line, "partNumber=");
    assert_eq!(said, ("tenfill: interrupted\n".into(), Some(130)));
    taken_back(&silent);
}

#[test]
fn a_download_that_is_interrupted_leaves_nothing_that_looks_whole() {
    let place = folder();
    let text = ratings(300_000);
    let silent =
        Server::start(Manners { stall_bytes: true, ..Manners::default() }).with("bucket/r.csv", text);
    let said =
        interrupted(place.path(), &silent, "convert s3://bucket/r.csv -o out.tenfill", "GET bucket/r.csv");
    assert_eq!(said, ("tenfill: interrupted\n".into(), Some(130)));
    assert_eq!(crate::common::names(place.path()), Vec::<String>::new());
    // A dataset that is being fetched is none until all of it is there.
    std::fs::write(place.path().join("r.csv"), ratings(4_000)).unwrap();
    let quiet = Server::start(Manners::default());
    fine(place.path(), &quiet, "convert r.csv -o r.tenfill");
    let with_files = |mut server: Server| {
        for (name, bytes) in bytes(&place.path().join("r.tenfill")) {
            server = server.with(&format!("bucket/r.tenfill/{}", name.display()), bytes);
        }
        server
    };
    let silent = with_files(Server::start(Manners { stall_bytes: true, ..Manners::default() }));
    let line = "complete s3://bucket/r.tenfill --cache data -o run --rank 2 --max-iterations 2";
    let said = interrupted(place.path(), &silent, line, "GET bucket/r.tenfill");
    assert_eq!(said, ("tenfill: interrupted\n".into(), Some(130)));
    assert!(!place.path().join("run").exists());
    let whole = with_files(Server::start(Manners::default()));
    fine(place.path(), &whole, line);
}

#[test]
fn secrets_are_neither_taken_nor_printed() {
    let place = folder();
    let server = Server::start(Manners::default());
    for address in ["http://me:hunter2@127.0.0.1/r.csv", "http://127.0.0.1/r.csv?signature=hunter2"] {
        let output = ask(place.path(), &server, &format!("convert {address} -o out.tenfill"));
        assert_eq!(output.status.code(), Some(1));
        let said = stderr(&output);
        assert!(!said.contains("hunter2"), "{said}");
    }
}
