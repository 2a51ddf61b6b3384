//! Signatures of bundles by BIB-HMAC-SHA2 (RFC 9173, section 3).
//!
//! Models signing and verification of any block by HMAC with SHA-256, SHA-384 or SHA-512.
//! Does not model wrapped keys, nor BCB-AES-GCM: a block confidentiality block is parsed and carried, never opened.

use ::hmac::{Hmac, Mac};
use sha2::{Sha256, Sha384, Sha512};

use super::bundle::{Block, Bundle, Content, code};
use super::cbor;
use super::crc::CrcKind;
use super::eid::Eid;
use super::security::{BIB_HMAC_SHA2, Item, SecurityBlock, Value};

const SHA_VARIANT: u64 = 1;
const WRAPPED_KEY: u64 = 2;
const SCOPE: u64 = 3;
const TAG: u64 = 1;

/// Hash function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Variant {
    /// HMAC with SHA-256.
    Sha256 = 5,
    /// HMAC with SHA-384, the default.
    #[default]
    Sha384 = 6,
    /// HMAC with SHA-512.
    Sha512 = 7,
}

/// Blocks that a signature covers apart from its target (RFC 9173, section 3.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope(pub u64);

impl Scope {
    /// Primary block.
    pub const PRIMARY: u64 = 1;
    /// Header of the target.
    pub const TARGET: u64 = 2;
    /// Header of the integrity block.
    pub const SECURITY: u64 = 4;
    /// Scope of all blocks, the default.
    pub const ALL: Scope = Scope(7);
}

impl Default for Scope {
    fn default() -> Scope {
        Scope::ALL
    }
}

/// Symmetric key.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(pub Vec<u8>);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Condition for which a signature is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The signature differs.
    #[error("the signature does not match")]
    Mismatch,
    /// The security block or one of its targets cannot be used.
    #[error("the integrity block is malformed or of another context")]
    Unusable,
}

fn mac(variant: Variant, key: &Key, data: &[&[u8]]) -> Vec<u8> {
    macro_rules! with {
        ($hash:ty) => {{
            let mut mac = <Hmac<$hash> as Mac>::new_from_slice(&key.0).expect("keys of any length");
            data.iter().for_each(|part| mac.update(part));
            mac.finalize().into_bytes().to_vec()
        }};
    }
    match variant {
        Variant::Sha256 => with!(Sha256),
        Variant::Sha384 => with!(Sha384),
        Variant::Sha512 => with!(Sha512),
    }
}

fn put_header(out: &mut Vec<u8>, block: (u64, u64, u64)) {
    [block.0, block.1, block.2].into_iter().for_each(|field| cbor::put_uint(out, field));
}

/// Returns type, number and flags of a block, except of the primary block.
fn header(bundle: &Bundle, number: u64) -> Option<(u64, u64, u64)> {
    match number {
        0 => None,
        1 => Some((1, 1, bundle.payload.flags.0)),
        _ => {
            let block = bundle.blocks.iter().find(|block| block.number == number)?;
            Some((block.content.code(), number, block.flags.0))
        }
    }
}

/// Returns the integrity-protected plaintext of a target (RFC 9173, section 3.7).
fn plaintext(bundle: &Bundle, target: u64, own: (u64, u64, u64), scope: u64) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    cbor::put_uint(&mut out, scope);
    if scope & Scope::PRIMARY != 0 && target != 0 {
        bundle.primary.emit(&mut out);
    }
    if scope & Scope::TARGET != 0 && target != 0 {
        put_header(&mut out, header(bundle, target)?);
    }
    if scope & Scope::SECURITY != 0 {
        put_header(&mut out, own);
    }
    let mut data = Vec::new();
    match target {
        0 => bundle.primary.emit(&mut data),
        1 => data = bundle.payload.to_vec(),
        _ => bundle.blocks.iter().find(|block| block.number == target)?.content.put(&mut data),
    }
    cbor::put_bytes(&mut out, &data);
    Some(out)
}

/// Adds an integrity block over target blocks, if all of them exist.
///
/// CRCs of targets are removed, of the primary block too (RFC 9173, section 3.8.1).
pub fn sign(
    bundle: &mut Bundle,
    targets: &[u64],
    source: Eid,
    key: &Key,
    (variant, scope): (Variant, Scope),
) -> Option<()> {
    let number = bundle.free_number();
    targets.iter().for_each(|target| set_crc(bundle, *target, CrcKind::None));
    let own = (code::INTEGRITY, number, 0);
    let result = |target: &u64| {
        let plaintext = plaintext(bundle, *target, own, scope.0)?;
        Some(vec![(TAG, Value::Bytes(mac(variant, key, &[&plaintext])))])
    };
    let results: Vec<Vec<Item>> = targets.iter().map(result).collect::<Option<_>>()?;
    let parameters = Some(vec![(SHA_VARIANT, Value::Uint(variant as u64)), (SCOPE, Value::Uint(scope.0))]);
    let block =
        SecurityBlock { targets: targets.to_vec(), context: BIB_HMAC_SHA2, source, parameters, results };
    bundle.blocks.insert(0, Block::new(number, Content::Integrity(block.to_vec().into())));
    Some(())
}

fn set_crc(bundle: &mut Bundle, target: u64, kind: CrcKind) {
    match target {
        0 => bundle.primary.crc = kind,
        1 => bundle.payload.crc = kind,
        _ => {
            bundle.blocks.iter_mut().filter(|block| block.number == target).for_each(|block| block.crc = kind)
        }
    }
}

/// Verifies all integrity blocks, and returns the numbers of the blocks that they cover.
///
/// # Errors
/// Returns an error if a signature differs, or an integrity block cannot be used.
pub fn verify(bundle: &Bundle, key: &Key) -> Result<Vec<u64>, Refusal> {
    let mut covered = Vec::new();
    for block in &bundle.blocks {
        let Content::Integrity(data) = &block.content else { continue };
        let security = SecurityBlock::parse(data).map_err(|_| Refusal::Unusable)?;
        verify_block(bundle, block, &security, key)?;
        covered.extend(security.targets);
    }
    Ok(covered)
}

fn verify_block(bundle: &Bundle, block: &Block, security: &SecurityBlock, key: &Key) -> Result<(), Refusal> {
    let has_wrapped_key = security.parameters.iter().flatten().any(|(id, _)| *id == WRAPPED_KEY);
    if security.context != BIB_HMAC_SHA2 || has_wrapped_key {
        return Err(Refusal::Unusable);
    }
    let variant = match security.parameter(SHA_VARIANT, Variant::default() as u64) {
        Ok(5) => Variant::Sha256,
        Ok(6) => Variant::Sha384,
        Ok(7) => Variant::Sha512,
        _ => return Err(Refusal::Unusable),
    };
    let scope = security.parameter(SCOPE, Scope::ALL.0).map_err(|_| Refusal::Unusable)?;
    let own = (block.content.code(), block.number, block.flags.0);
    for (target, results) in security.targets.iter().zip(&security.results) {
        let plaintext = plaintext(bundle, *target, own, scope).ok_or(Refusal::Unusable)?;
        let expected = mac(variant, key, &[&plaintext]);
        match &results[..] {
            [(TAG, Value::Bytes(found))] if is_same(&expected, found) => {}
            [(TAG, Value::Bytes(_))] => return Err(Refusal::Mismatch),
            _ => return Err(Refusal::Unusable),
        }
    }
    Ok(())
}

/// Returns `true` if both are equal, in constant time.
fn is_same(expected: &[u8], found: &[u8]) -> bool {
    let difference =
        expected.iter().zip(found).fold(0, |difference, (one, other)| difference | (one ^ other));
    expected.len() == found.len() && difference == 0
}

/// Removes verified integrity blocks and gives their targets a CRC again (RFC 9173, section 3.8.2).
///
/// # Errors
/// Returns an error if a signature is not accepted; then nothing changes.
pub fn take_off(bundle: &mut Bundle, key: &Key) -> Result<(), Refusal> {
    let covered = verify(bundle, key)?;
    bundle.blocks.retain(|block| !matches!(block.content, Content::Integrity(_)));
    covered.into_iter().for_each(|target| set_crc(bundle, target, CrcKind::Castagnoli));
    Ok(())
}

#[cfg(test)]
mod tests;
