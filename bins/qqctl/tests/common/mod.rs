//! A server that answers as it is told and remembers what it was asked, and `qqctl` in an environment of its own.
#![allow(
    dead_code,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of a binary has sockets, threads and processes, and each file uses a part"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde_json::Value;

/// What the server was asked.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) head: String,
    pub(crate) body: Value,
}

/// A server on a port of its own.
pub(crate) struct Server {
    pub(crate) url: String,
    requests: Receiver<Request>,
}

impl Server {
    /// Answers every request with what `answer` returns: the raw bytes of a response.
    pub(crate) fn start(answer: impl Fn(&Request) -> Vec<u8> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (sender, requests) = channel();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut reader = BufReader::new(stream);
                while let Some(request) = read(&mut reader) {
                    let bytes = answer(&request);
                    // First, so that whoever has the answer finds the request.
                    let is_wanted = sender.send(request).is_ok();
                    let sent = reader.get_mut().write_all(&bytes);
                    if !is_wanted || sent.is_err() || bytes.is_empty() {
                        break;
                    }
                    if !String::from_utf8_lossy(&bytes).contains("content-length") {
                        break;
                    }
                }
            }
        });
        Self { url, requests }
    }

    /// Answers every request with that status and JSON.
    pub(crate) fn json(status: u16, json: &str) -> Self {
        let bytes = response(status, "application/json", json);
        Self::start(move |_| bytes.clone())
    }

    /// What was asked so far.
    pub(crate) fn asked(&self) -> Vec<Request> {
        self.requests.try_iter().collect()
    }
}

/// A whole response.
pub(crate) fn response(status: u16, kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} Status\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line.to_ascii_lowercase().replace("\r\n", "\n"));
        if head.lines().count() == 1 {
            head = line.replace("\r\n", "\n");
        }
    }
    let mut words = head.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a length"))];
    reader.read_exact(&mut body).ok()?;
    Some(Request {
        method,
        path,
        head: head.clone(),
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    })
}

/// The command line, with an environment that only the test decides.
pub(crate) fn qqctl(url: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qqctl"));
    command
        .env_clear()
        .env("QQ_API_URL", url)
        .args(args)
        .stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub(crate) fn run(url: &str, args: &[&str]) -> Output {
    qqctl(url, args).output().expect("it runs")
}

/// Runs it with that on standard input.
pub(crate) fn run_with_input(url: &str, args: &[&str], input: &[u8]) -> Output {
    let mut command = qqctl(url, args);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let mut stdin = child.stdin.take().expect("it was asked for");
    stdin.write_all(input).expect("it reads");
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

pub(crate) fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

pub(crate) fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}
