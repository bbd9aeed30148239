//! A line to the API server that can be cut, held up, and cut again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Passes bytes on, both ways. It ends with this.
pub struct Proxy {
    address: SocketAddr,
    line: Arc<Line>,
    task: JoinHandle<()>,
}

struct Line {
    to: SocketAddr,
    /// How long what the server says is held back, in milliseconds.
    delay: AtomicU64,
    /// Counts the cuts; every connection that was there before one ends with it.
    cuts: watch::Sender<u64>,
    connections: AtomicU64,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
        self.cut();
    }
}

impl Proxy {
    /// A line to an address.
    pub async fn to(to: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port on loopback");
        let address = listener.local_addr().expect("its address");
        let line = Arc::new(Line {
            to,
            delay: AtomicU64::new(0),
            cuts: watch::Sender::new(0),
            connections: AtomicU64::new(0),
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&line)));
        Self { address, line, task }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Ends every connection there is, in the middle of what goes over it.
    pub fn cut(&self) {
        self.line.cuts.send_modify(|count| *count += 1);
    }

    /// Holds back all that the server says from now on.
    pub fn slow(&self, by: Duration) {
        self.line.delay.store(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Connections so far.
    pub fn connections(&self) -> u64 {
        self.line.connections.load(Ordering::Relaxed)
    }
}

async fn accept(listener: TcpListener, line: Arc<Line>) {
    while let Ok((client, _)) = listener.accept().await {
        line.connections.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(carry(client, Arc::clone(&line)));
    }
}

/// Carries one connection until it ends or is cut.
async fn carry(client: TcpStream, line: Arc<Line>) {
    let mut cuts = line.cuts.subscribe();
    cuts.borrow_and_update();
    let Ok(server) = TcpStream::connect(line.to).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let there = pump(from_client, to_server, None);
    let back = pump(from_server, to_client, Some(&line.delay));
    tokio::select! {
        () = async { tokio::join!(there, back); } => {}
        _ = cuts.changed() => {}
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: Option<&AtomicU64>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let wait = delay.map_or(0, |delay| delay.load(Ordering::Relaxed));
        if wait > 0 {
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
    // The other side is told that nothing more comes.
    let _ = to.shutdown().await;
}
