//! What happens when there are no file descriptors left (case OP-01): in a process of its own, as the limit is one of
//! processes.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests drive real sockets, threads and processes"
)]

mod bed;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use bed::{Bed, Client, FRONTS, Front};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Set in the process that runs out of files: the name of the front end.
const ROLE: &str = "QQ_TEST_FRONT";
const TEST: &str = "op_01_without_descriptors_accepting_pauses_and_goes_on_later";

#[test]
fn op_01_without_descriptors_accepting_pauses_and_goes_on_later() {
    if let Ok(role) = std::env::var(ROLE) {
        let front = FRONTS.into_iter().find(|front| front.name == role);
        serve(front.expect("a front end"));
        return;
    }
    for front in FRONTS {
        let mut server = Server::start(front);
        let mut served: Vec<_> = (0..4).map(|_| server.connect()).collect();
        assert!(served.iter_mut().all(Client::is_served), "{}", front.name);
        server.ask("few");
        let mut more: Vec<_> = (0..40).map(|_| server.connect()).collect();
        let begun = server.cpu_ticks();
        // Long enough for thousands of attempts, if there were any.
        for _ in 0..15 {
            std::thread::sleep(std::time::Duration::from_millis(100));
            assert!(served.iter_mut().all(Client::is_served), "{}", front.name);
        }
        // A hundred ticks are a second: a loop without a pause would have used up all of this one and a half.
        let used = server.cpu_ticks() - begun;
        assert!(used < 50, "{}: {used} ticks", front.name);
        server.ask("many");
        assert!(more.iter_mut().all(Client::is_served), "{}", front.name);
        let log = server.end();
        let complaints = log.iter().filter(|line| line.contains("cannot accept"));
        let complaints = complaints.count();
        assert!((1..=4).contains(&complaints), "{}: {log:#?}", front.name);
    }
}

/// The process that runs out of files, seen from outside.
struct Server {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
    address: std::net::SocketAddr,
    log: Vec<String>,
}

impl Server {
    fn start(front: Front) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", TEST, "--nocapture"])
            .env(ROLE, front.name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        let mut server = Self {
            child,
            lines,
            address: ([127, 0, 0, 1], 0).into(),
            log: Vec::new(),
        };
        let ready = server.until("ready ");
        server.address = ready.parse().expect("an address");
        server
    }

    /// What follows `word` in the next line that begins with it; lines before are kept.
    fn until(&mut self, word: &str) -> String {
        loop {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line).expect("a line");
            assert_ne!(read, 0, "it ended: {:#?}", self.log);
            match line.trim_end().strip_prefix(word) {
                Some(rest) => return rest.to_owned(),
                None => self.log.push(line),
            }
        }
    }

    fn ask(&mut self, word: &str) {
        let stdin = self.child.stdin.as_mut().expect("piped");
        writeln!(stdin, "{word}").expect("it reads");
        self.until(&format!("done {word}"));
    }

    fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Processor time so far, user and system.
    fn cpu_ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let stat = stat.expect("it runs");
        // The name in parentheses may hold blanks; user and system time are the 12th and 13th number after it.
        let (_, numbers) = stat.rsplit_once(") ").expect("a name");
        let numbers = numbers.split(' ').skip(11).take(2);
        numbers
            .map(|ticks| ticks.parse::<u64>().expect("ticks"))
            .sum()
    }

    fn end(mut self) -> Vec<String> {
        self.ask("end");
        assert!(self.child.wait().expect("it ends").success());
        std::mem::take(&mut self.log)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Prints what the runtime logs.
struct Print;

impl log::Log for Print {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &log::Record<'_>) {
        println!("{}", record.args());
    }
    fn flush(&self) {}
}

/// The other side: does what it reads.
fn serve(front: Front) {
    log::set_logger(&Print).expect("the first");
    log::set_max_level(log::LevelFilter::Warn);
    let bed = Bed::start(front, |config| config.unauthenticated_per_ip_max = 100);
    println!("\nready {}", bed.address);
    let usual = getrlimit(Resource::Nofile);
    for line in std::io::stdin().lines().map_while(Result::ok) {
        match line.as_str() {
            "few" => {
                let open = std::fs::read_dir("/proc/self/fd").expect("it is there");
                let few = open.count() as u64 + 2;
                let few = Rlimit {
                    current: Some(few),
                    ..usual
                };
                setrlimit(Resource::Nofile, few).expect("lower is allowed");
            }
            "many" => setrlimit(Resource::Nofile, usual).expect("as it was"),
            _ => break,
        }
        println!("\ndone {line}");
    }
    bed.stop().expect("drained");
    println!("\ndone end");
}
