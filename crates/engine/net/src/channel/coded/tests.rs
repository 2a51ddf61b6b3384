use super::*;

fn config(code_rate: CodeRate, eb_n0_db: f64, outer: bool) -> CodedConfig {
    CodedConfig {
        code_rate,
        eb_n0_db: Some(eb_n0_db),
        budget: None,
        implementation_db: 0.0,
        outer,
        crc: false,
    }
}

fn blocks(config: &CodedConfig, count: usize, seed: u64) -> Vec<bool> {
    let mut coded = Coded::new(config).expect("a sound configuration");
    let mut stream = RandomStream::new(seed, "coded");
    let mut damage = || coded.damage(&mut Packet::new(0, 188), &mut stream);
    (0..count).map(|_| damage()).collect()
}

/// Returns the share of wrong blocks and the mean number of them in succession.
fn shape(wrong: &[bool]) -> (f64, f64) {
    let count = wrong.iter().filter(|wrong| **wrong).count() as f64;
    let runs = wrong.chunk_by(|one, other| one == other).filter(|run| run[0]).count() as f64;
    (count / wrong.len() as f64, count / runs.max(1.0))
}

#[test]
fn blocks_fail_as_those_of_a_decoder_that_sees_all_of_the_noise() {
    // One run of the decoder over all blocks, interleaved as EN 300 421 does: no events drawn.
    let (rate, count) = (CodeRate::SevenEighths, 3000);
    for eb_n0_db in [4.0, 4.2] {
        let es_n0 = config(rate, eb_n0_db, true).es_n0();
        let mut stream = RandomStream::new(5, "noise");
        let wrong = code::wrong_of(rate, es_n0, 8 * BLOCK as usize * (count + 12), &mut stream);
        let mut bytes = vec![vec![]; count];
        for bit in wrong {
            let (sent, place) = (bit as u64 / 8, bit as u64 / 8 % BLOCK);
            let of = (sent / BLOCK).checked_sub(place % BRANCHES).and_then(|of| bytes.get_mut(of as usize));
            if let Some(bytes) = of.filter(|bytes| !bytes.contains(&place)) {
                bytes.push(place);
            }
        }
        let is_wrong =
            |places: &Vec<u64>| places.len() > CORRECTABLE && places.iter().any(|place| *place < DATA);
        let exact = shape(&bytes.iter().map(is_wrong).collect::<Vec<_>>());
        // Blocks fail tenfold for 0.3 dB less: the model may be off by 0.06 dB.
        let model = |db| shape(&blocks(&config(rate, eb_n0_db + db, true), 10 * count, 1));
        let (better, worse) = (model(0.06), model(-0.06));
        assert!((better.0..worse.0).contains(&exact.0), "{eb_n0_db} dB: {exact:?}, {better:?} to {worse:?}");
        assert!(
            (0.8 * better.1..1.2 * worse.1).contains(&exact.1),
            "{eb_n0_db} dB: {exact:?}, {better:?} to {worse:?}"
        );
    }
}

#[test]
fn wrong_bits_without_the_outer_code_come_at_their_rate_and_in_bursts() {
    let config = config(CodeRate::ThreeQuarters, 4.5, false);
    let mut coded = Coded::new(&config).expect("a sound configuration");
    let mut stream = RandomStream::new(3, "coded");
    let (mut bits, count) = (0, 20_000);
    for _ in 0..count {
        let mut packet = Packet::new(0, 188);
        coded.damage(&mut packet, &mut stream);
        bits += packet.to_vec().iter().map(|byte| byte.count_ones()).sum::<u32>();
    }
    let ratio = f64::from(bits) / (f64::from(count) * 8.0 * 188.0);
    let bound = CodeRate::ThreeQuarters.bound(config.es_n0())[1];
    assert!((0.6..1.1).contains(&(ratio / bound)), "{ratio} {bound}");
}

#[test]
fn a_link_above_its_threshold_is_free_of_errors_and_one_far_below_has_nothing_else() {
    assert_eq!(shape(&blocks(&config(CodeRate::Half, 6.0, true), 2000, 1)).0, 0.0);
    assert_eq!(shape(&blocks(&config(CodeRate::SevenEighths, 1.0, true), 2000, 1)).0, 1.0);
}

#[test]
fn packets_of_any_length_are_laid_into_blocks() {
    let config = config(CodeRate::SevenEighths, 4.5, true);
    let mut coded = Coded::new(&config).expect("a sound configuration");
    let (mut stream, mut other) = (RandomStream::new(9, "coded"), RandomStream::new(9, "coded"));
    let whole: Vec<bool> = {
        let mut one = Coded::new(&config).expect("a sound configuration");
        (0..1000).map(|_| one.damage(&mut Packet::new(0, 188 * 3), &mut other)).collect()
    };
    let mut third = || coded.damage(&mut Packet::new(0, 188), &mut stream);
    let parts: Vec<bool> = (0..1000).map(|_| [third(), third(), third()].contains(&true)).collect();
    assert_eq!(whole, parts);
}

#[test]
fn a_budget_gives_the_ratio_of_its_sum() {
    // Koreasat 3 of the publication: 71 dBW and 32 dB/K; free space at 20 GHz over 38,000 km has 210.07 dB.
    let budget = Budget {
        eirp_dbw: 71.0,
        g_t_db: 32.0,
        frequency_ghz: 20.0,
        distance_km: 38_000.0,
        losses_db: 0.0,
        rate: Rate::from_bps(155_520_000),
    };
    assert!(
        (budget.eb_n0_db() - (71.0 + 32.0 - 210.07 + 228.60 - 81.92)).abs() < 0.02,
        "{}",
        budget.eb_n0_db()
    );
}

#[test]
fn what_does_not_fit_is_refused_by_its_key() {
    let key = |config: CodedConfig| Coded::new(&config).map(|_| ()).expect_err("a refusal").key;
    let sound = config(CodeRate::Half, 5.0, true);
    assert_eq!(key(CodedConfig { eb_n0_db: None, ..sound }), "eb_n0_db");
    assert_eq!(key(CodedConfig { eb_n0_db: Some(f64::NAN), ..sound }), "eb_n0_db");
    assert_eq!(key(CodedConfig { implementation_db: -1.0, ..sound }), "implementation_db");
}

#[test]
fn a_forecast_is_that_of_a_code_above_its_threshold_alone() {
    // 15 % of the blocks of rate 1/2 are wrong at 2 dB, where the union bound has 98 %.
    assert_eq!(config(CodeRate::Half, 2.0, true).mean_loss(188), None);
    let clear = config(CodeRate::Half, 5.0, true).mean_loss(188).expect("close");
    assert!(clear < 1e-9, "{clear}");
    let inner = config(CodeRate::ThreeQuarters, 5.0, false);
    let forecast = inner.mean_loss(188).expect("close");
    let found = shape(&blocks(&inner, 20_000, 1)).0;
    assert!((0.7..1.3).contains(&(found / forecast)), "{found} {forecast}");
}
