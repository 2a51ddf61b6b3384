//! Status reports of a node, and blocks that it does not know.

use bentpipe_units::Time;
use bentpipe_wire::dtn::admin::{Record, Status, StatusReport, reason};
use bentpipe_wire::dtn::bundle::{BlockFlags, Bundle, BundleFlags, Content, Payload, Primary};

use super::{Node, PRIORITY_BLOCK, place_of};

/// Returns `true` if the bundle can be kept, without the unknown blocks to be discarded.
pub(super) fn discard_unknown(bundle: &mut Bundle) -> bool {
    let is_unknown =
        |content: &Content| matches!(content, Content::Other { code, .. } if *code != PRIORITY_BLOCK);
    let unknown = bundle.blocks.iter().filter(|block| is_unknown(&block.content));
    let is_deleted = unknown.into_iter().any(|block| block.flags.has(BlockFlags::DELETE_BUNDLE));
    bundle.blocks.retain(|block| !(is_unknown(&block.content) && block.flags.has(BlockFlags::DISCARD)));
    !is_deleted
}

impl Node {
    pub(super) fn report_reception(&mut self, bundle: &Bundle, now: Time) {
        self.report(bundle, BundleFlags::REPORT_RECEPTION, reason::NONE, now, |report| &mut report.received);
    }

    pub(super) fn report_forwarding(&mut self, bundle: &Bundle, now: Time) {
        self.report(bundle, BundleFlags::REPORT_FORWARDING, reason::NONE, now, |report| {
            &mut report.forwarded
        });
    }

    pub(super) fn report_delivery(&mut self, bundle: &Bundle, now: Time) {
        self.report(bundle, BundleFlags::REPORT_DELIVERY, reason::NONE, now, |report| &mut report.delivered);
    }

    pub(super) fn report_deletion(&mut self, bundle: &Bundle, reason: u64, now: Time) {
        self.notes.delete(bundle, reason);
        self.report(bundle, BundleFlags::REPORT_DELETION, reason, now, |report| &mut report.deleted);
    }

    /// Sends a report if the bundle asks for it. Records are never reported on, nor anything to the null endpoint.
    fn report(
        &mut self,
        bundle: &Bundle,
        flag: BundleFlags,
        reason: u64,
        now: Time,
        event: fn(&mut StatusReport) -> &mut Status,
    ) {
        let Primary { flags, report_to, source, timestamp, lifetime, .. } = &bundle.primary;
        let is_wanted = self.config.reports && flags.has(flag) && !flags.has(BundleFlags::ADMIN);
        if !is_wanted || report_to.is_null() || self.is_reporting {
            return;
        }
        let (fragment, len) = place_of(bundle);
        let mut report =
            StatusReport { reason, ..StatusReport::new(source.clone(), *timestamp, fragment, len) };
        let time = flags.has(BundleFlags::REPORT_TIME).then(|| self.dtn_time(now));
        *event(&mut report) = Status { is_asserted: true, time };
        let stamp = self.timestamp(now);
        let mut primary = Primary::new(self.config.eid.clone(), report_to.clone(), stamp, *lifetime);
        primary.flags = BundleFlags::ADMIN;
        let payload = Payload::new(Record::Status(report).to_vec());
        self.counts.reports += 1;
        self.is_reporting = true;
        self.accept(Bundle { primary, blocks: vec![], payload }, None, now);
        self.is_reporting = false;
    }
}
