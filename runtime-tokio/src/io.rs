//! The IO threads: each runs the tasks it is given, alone.

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle, Runtime};

use qq_runtime::front::Host;
use qq_runtime::{Shutdown, Visitor};

use crate::sleep::Sleep;
use crate::socket::Socket;

/// Gives tasks to threads; shared by whoever makes tasks.
pub(crate) struct Spawner {
    handles: Vec<Handle>,
}

impl Spawner {
    /// Runs a task on the first thread and waits for what it returns.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> T {
        match self.handles[0].spawn(task).await {
            Ok(value) => value,
            Err(error) => resume_unwind(error.into_panic()),
        }
    }

    /// Runs a task on thread number `thread`. Its panic ends only itself: what it owns is dropped.
    pub(crate) fn spawn(&self, thread: usize, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.handles[thread].spawn(guarded(task)));
    }
}

impl Host for Spawner {
    fn threads(&self) -> usize {
        self.handles.len()
    }

    fn take_in(&self, thread: usize, visitor: Visitor) {
        self.spawn(thread, visitor.stay::<Socket, Sleep>());
    }
}

async fn guarded(task: impl Future<Output = ()> + Send + 'static) {
    let mut task = std::pin::pin!(task);
    std::future::poll_fn(|cx| {
        catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(cx))).unwrap_or_else(|_| {
            log::error!(
                "a task panicked and was ended; this is a bug, please report the message above"
            );
            Poll::Ready(())
        })
    })
    .await;
}

/// The threads themselves; the first is the caller's.
pub(crate) struct IoThreads {
    first: Runtime,
    others: Vec<JoinHandle<()>>,
    spawner: Arc<Spawner>,
    stop: Shutdown,
}

impl IoThreads {
    /// Starts all but the first.
    pub(crate) fn start(count: usize) -> io::Result<Self> {
        let first = new_runtime()?;
        let stop = Shutdown::new();
        let mut handles = vec![first.handle().clone()];
        let mut others = Vec::new();
        for number in 1..count {
            let runtime = new_runtime()?;
            handles.push(runtime.handle().clone());
            let stop = stop.clone();
            let thread = std::thread::Builder::new().name(format!("qq-io-{number}"));
            others.push(thread.spawn(move || runtime.block_on(until_stopped(stop)))?);
        }
        Ok(Self {
            first,
            others,
            spawner: Arc::new(Spawner { handles }),
            stop,
        })
    }

    /// Where to give tasks.
    pub(crate) fn spawner(&self) -> Arc<Spawner> {
        Arc::clone(&self.spawner)
    }

    /// Runs the first thread's tasks, on the caller's, until `future` is ready.
    pub(crate) fn run_first<T>(&self, future: impl Future<Output = T>) -> T {
        self.first.block_on(future)
    }

    /// Ends the other threads; tasks that still run are dropped.
    pub(crate) fn stop(self) {
        self.stop.trigger();
        for thread in self.others {
            let _ = thread.join();
        }
    }
}

fn new_runtime() -> io::Result<Runtime> {
    Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
}

async fn until_stopped(stop: Shutdown) {
    std::future::poll_fn(|cx| match stop.poll_level(cx) {
        0 => Poll::Pending,
        _ => Poll::Ready(()),
    })
    .await;
}
