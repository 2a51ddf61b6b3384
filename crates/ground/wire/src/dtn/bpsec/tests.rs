use super::*;
use crate::dtn::bundle::{Breach, Bundle};

const KEY: &str = "1a2b1a2b1a2b1a2b1a2b1a2b1a2b1a2b";
/// RFC 9173, appendix A.1.1.3 and A.1.4.
const PLAIN: &str = "9f88070000820282010282028202018202820201820018281a000f4240850101\
    00005823526561647920746f2067656e657261746520612033322d627974652070617\
    96c6f6164ff";
const SIGNED: &str = "9f88070000820282010282028202018202820201820018281a000f4240850b0200\
    005856810101018202820201828201078203008181820158403bdc69b3a34a2b5d3a8554368bd1e808f606219d2a10a846eae3886ae4ecc83c\
    4ee550fdfb1cc636b904e2f1a73e303dcd4b6ccece003e95e8164dcc89a156e185010100005823526561647920746f2067656e657261746520\
    612033322d62797465207061796c6f6164ff";
/// RFC 9173, appendix A.3.1.4 and A.3.5.
const AGED: &str = "9f88070000820282010282028202018202820201820018281a000f4240850702000043\
    19012c85010100005823526561647920746f2067656e657261746520612033322d62797465207061796c6f6164ff";
const SIGNED_AND_SEALED: &str = "9f88070000820282010282028202018202820201820018281a000f4240850b0300\
    00585c8200020101820282030082820105820300828182015820cac6ce8e4c5dae57988b757e49a6dd1431dc04763541b2845098265bc81724\
    1b81820158203ed614c0d97f49b3633627779aa18a338d212bf3c92b97759d9739cd50725596850c0401005834810102018202820201838201\
    4c5477656c76653132313231328202018204008181820150efa4b5ac0108e3816c5606479801bc0485070200004319012c850101000058233a\
    09c1e63fe23a7f66a59c7303837241e070b02619fc59c5214a22f08cd70795e73e9aff";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn bundle(hex: &str) -> Bundle {
    let bundle = Bundle::parse(&bytes(hex)).unwrap();
    assert_eq!(bundle.to_vec(), bytes(hex));
    bundle
}

fn key() -> Key {
    Key(bytes(KEY))
}

#[test]
fn example_1_signs_the_payload() {
    let mut plain = bundle(PLAIN);
    sign(&mut plain, &[1], Eid::ipn(2, 1), &key(), (Variant::Sha512, Scope(0))).unwrap();
    assert_eq!(plain.to_vec(), bytes(SIGNED));
    assert_eq!(verify(&bundle(SIGNED), &key()), Ok(vec![1]));
}

#[test]
fn example_3_signs_primary_and_age() {
    let mut aged = bundle(AGED);
    sign(&mut aged, &[0, 2], Eid::ipn(3, 0), &key(), (Variant::Sha256, Scope(0))).unwrap();
    let published = bundle(SIGNED_AND_SEALED);
    assert_eq!(aged.blocks[0], published.blocks[0]);
    assert_eq!(verify(&published, &key()), Ok(vec![0, 2]));
    assert!(published.is_signed(0) && !bundle(SIGNED).is_signed(0));
    assert_eq!((published.check(), bundle(SIGNED).check()), (Ok(()), Err(Breach::UnprotectedPrimary)));
}

#[test]
fn any_flipped_bit_of_signed_content_is_found() {
    let signed = bytes(SIGNED_AND_SEALED);
    let age = signed.windows(4).position(|window| window == [0x43, 0x19, 1, 0x2c]).unwrap();
    for at in [9, age + 3] {
        let mut changed = signed.clone();
        changed[at] ^= 1;
        let bundle = Bundle::parse(&changed).unwrap();
        assert_eq!(verify(&bundle, &key()), Err(Refusal::Mismatch), "byte {at}");
    }
    assert_eq!(verify(&bundle(SIGNED), &Key(vec![1; 16])), Err(Refusal::Mismatch));
}

#[test]
fn full_scope_covers_the_headers() {
    let mut signed = bundle(AGED);
    sign(&mut signed, &[1, 2], Eid::ipn(2, 1), &key(), (Variant::default(), Scope::ALL)).unwrap();
    assert_eq!(verify(&signed, &key()), Ok(vec![1, 2]));
    let mut changed = signed.clone();
    changed.payload.flags.0 = 1;
    assert_eq!(verify(&changed, &key()), Err(Refusal::Mismatch));
    let mut changed = signed.clone();
    changed.primary.lifetime += 1;
    assert_eq!(verify(&changed, &key()), Err(Refusal::Mismatch));
    take_off(&mut signed, &key()).unwrap();
    assert_eq!((signed.blocks.len(), signed.payload.crc.len()), (1, 4));
}

#[test]
fn a_missing_target_is_refused() {
    assert_eq!(sign(&mut bundle(AGED), &[9], Eid::ipn(2, 1), &key(), Default::default()), None);
}
