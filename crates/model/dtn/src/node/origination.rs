//! Bundles of applications.

use bentpipe_units::Time;
use bentpipe_wire::dtn::admin::reason;
use bentpipe_wire::dtn::bundle::Bundle;

use super::{Node, Share};

impl Node {
    /// Returns `true` if the bundle of an application is accepted. Otherwise the storage is full.
    pub fn originate(&mut self, bundle: Bundle, now: Time) -> bool {
        self.originate_for(bundle, Share::Known, now)
    }

    /// Returns `true` if the bundle of an application is accepted, on an account.
    pub fn originate_for(&mut self, bundle: Bundle, share: Share, now: Time) -> bool {
        self.counts.originated += 1;
        if self.is_beyond(&bundle) {
            self.counts.hop_limit += 1;
            self.report_deletion((&bundle, share), reason::HOP_LIMIT, now);
            return false;
        }
        self.accept(bundle, None, share, now)
    }
}
