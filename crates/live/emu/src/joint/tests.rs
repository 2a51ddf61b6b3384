use super::*;

fn joining(bind: u16, peer: u16, side: u8) -> Joining {
    let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
    Joining {
        bind: at(bind),
        peer: at(peer),
        side,
        fingerprint: [9; 32],
        max_wait: Duration::from_secs(5),
        skew: Skew::default(),
    }
}

/// Returns two ports of loopback that are free.
fn ports() -> [u16; 2] {
    let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a free port"));
    sockets.map(|socket| socket.local_addr().expect("bound").port())
}

fn meet(joining: Joining, key: u8) -> std::thread::JoinHandle<Result<Joint, JoinError>> {
    std::thread::spawn(move || Joint::meet(joining, Key::new(&[key; 32]), Arc::default()))
}

fn packet(n: u16) -> Vec<u8> {
    let mut packet = vec![0; 28];
    (packet[0], packet[3]) = (0x45, 28);
    packet[4..6].copy_from_slice(&n.to_be_bytes());
    packet
}

/// Receives packets of a joint for `span`, and returns their numbers and due times.
fn received(joint: &mut Joint, clock: &Monotonic, span: Duration) -> Vec<(u16, Time)> {
    use crate::Clock;
    let (begin, mut all) = (Instant::now(), Vec::new());
    while begin.elapsed() < span {
        for (_, due, packet) in joint.receive(clock.now()) {
            let mut bytes = Vec::new();
            packet.write_to(&mut bytes);
            all.push((u16::from_be_bytes([bytes[4], bytes[5]]), due));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    all
}

#[test]
fn packets_keep_their_instants_between_skewed_clocks() {
    let [a, b] = ports();
    let skew = Skew { offset_ns: 86_400_000_000_000, drift_ppm: 100.0 };
    let first = meet(joining(a, b, 0), 1);
    let second = meet(Joining { skew, ..joining(b, a, 1) }, 1);
    let [mut first, mut second] = [first, second].map(|met| met.join().expect("no panic").expect("met"));
    let path = first.path();
    assert!(
        path.usual_round_trip < Span::from_millis(200) && path.clock_error <= path.longest_round_trip,
        "{path:?}"
    );
    let ready = std::thread::spawn(move || {
        let clock = second.agree_on_start().expect("agreed");
        (second, clock)
    });
    let _clock = first.agree_on_start().expect("agreed");
    let (mut second, other) = ready.join().expect("no panic");
    for n in 0..100 {
        first.send(Time::from_nanos(1_000_000_000 + u64::from(n)), &packet(n));
    }
    first.flush();
    let all = received(&mut second, &other, Duration::from_millis(300));
    assert_eq!(all.iter().map(|(n, _)| *n).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    let wrong = all.iter().map(|(_, due)| due.as_nanos().abs_diff(1_000_000_000)).max().expect("some");
    let bound = first.path().clock_error.as_nanos() + second.path().clock_error.as_nanos() + 500_000;
    assert!(wrong <= bound, "{wrong} ns off, {bound} ns allowed");
    drop(first);
    received(&mut second, &other, Duration::from_millis(100));
    assert_eq!(second.ended(), Some(Ending::ByOther));
}

#[test]
fn other_keys_scenarios_and_parts_are_named() {
    let errors = |joining: [Joining; 2], keys: [u8; 2]| {
        let both = [meet(joining[0], keys[0]), meet(joining[1], keys[1])];
        both.map(|met| met.join().expect("no panic").err().expect("a refusal").to_string())
    };
    let refused = |joining, keys, why: &str| {
        let errors = errors(joining, keys);
        assert!(errors.iter().all(|error| error.contains(why)), "{why}: {errors:?}");
    };
    let brief = |joining: Joining| Joining { max_wait: Duration::from_millis(700), ..joining };
    let [a, b] = ports();
    let pair = [brief(joining(a, b, 0)), brief(joining(b, a, 1))];
    refused(pair, [1, 2], "have another key");
    let [first, second] = pair;
    refused([first, Joining { fingerprint: [8; 32], ..second }], [1, 1], "another scenario");
    refused([first, Joining { side: 0, ..second }], [1, 1], "the same part");
    let alone = Joint::meet(first, Key::new(&[1; 32]), Arc::default()).err().expect("no answer");
    assert!(alone.to_string().contains("does not answer"), "{alone}");
}

#[test]
fn garbage_forged_and_replayed_datagrams_are_counted_and_dropped() {
    // A path that shows each datagram: what goes from the first to the second passes here.
    let [a, b] = ports();
    let path = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let between = path.local_addr().expect("bound").port();
    let back = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let end = Arc::new(AtomicBool::new(false));
    let first = meet(joining(a, between, 0), 1);
    let second = meet(joining(b, between, 1), 1);
    drop(back);
    let forward = std::thread::spawn({
        let end = Arc::clone(&end);
        move || {
            path.set_read_timeout(Some(Duration::from_millis(20))).expect("set");
            let mut buffer = [0; 2048];
            while !end.load(Ordering::Relaxed) {
                let Ok((len, from)) = path.recv_from(&mut buffer) else { continue };
                let to = if from.port() == a { b } else { a };
                let send = |bytes: &[u8]| drop(path.send_to(bytes, ("127.0.0.1", to)));
                send(&buffer[..len]);
                if to == b && buffer[4] == 2 {
                    send(&buffer[..len]);
                    send(&buffer[..len - 1]);
                    buffer[20] ^= 1;
                    send(&buffer[..len]);
                    send(b"nonsense");
                }
            }
        }
    });
    let [mut first, mut second] = [first, second].map(|met| met.join().expect("no panic").expect("met"));
    let ready = std::thread::spawn(move || {
        let clock = second.agree_on_start().expect("agreed");
        (second, clock)
    });
    first.agree_on_start().expect("agreed");
    let (mut second, clock) = ready.join().expect("no panic");
    (0..50).for_each(|n| first.send(Time::ZERO, &packet(n)));
    first.flush();
    let all = received(&mut second, &clock, Duration::from_millis(300));
    end.store(true, Ordering::Relaxed);
    forward.join().expect("no panic");
    let counts = second.counts();
    assert_eq!((all.len(), counts.received, counts.replayed), (50, 50, 50), "{counts:?}");
    // One byte less moves the tag: it is a frame, and a forged one.
    assert_eq!((counts.forged, counts.malformed, counts.missing), (100, 50, 0), "{counts:?}");
}
