//! Status reports of a node.

use bentpipe_units::Time;
use bentpipe_wire::dtn::admin::{Record, Status, StatusReport, reason};
use bentpipe_wire::dtn::bundle::{Bundle, BundleFlags, Payload, Primary};

use super::{Node, Share, place_of};

/// Least lifetime of a report in milliseconds. One on a bundle without lifetime has to arrive too.
const LEAST_LIFETIME: u64 = 3_600_000;

/// Length of the block with the previous node, which a report gets when it leaves.
const PREVIOUS_NODE: u64 = 24;

impl Node {
    pub(super) fn report_reception(&mut self, of: (&Bundle, Share), now: Time) {
        self.report(of, BundleFlags::REPORT_RECEPTION, reason::NONE, now, |report| &mut report.received);
    }

    /// Reports that a bundle has blocks that cannot be processed. The flag of one of them has asked for it.
    pub(super) fn report_unsupported(&mut self, of: (&Bundle, Share), now: Time) {
        self.send_report(of, reason::UNSUPPORTED, now, |report| &mut report.received);
    }

    pub(super) fn report_forwarding(&mut self, of: (&Bundle, Share), now: Time) {
        self.report(of, BundleFlags::REPORT_FORWARDING, reason::NONE, now, |report| &mut report.forwarded);
    }

    pub(super) fn report_delivery(&mut self, of: (&Bundle, Share), now: Time) {
        self.report(of, BundleFlags::REPORT_DELIVERY, reason::NONE, now, |report| &mut report.delivered);
    }

    pub(super) fn report_deletion(&mut self, of: (&Bundle, Share), reason: u64, now: Time) {
        self.notes.delete(of.0, reason, now);
        self.report(of, BundleFlags::REPORT_DELETION, reason, now, |report| &mut report.deleted);
    }

    /// Sends a report if the bundle asks for it.
    fn report(
        &mut self,
        of: (&Bundle, Share),
        flag: BundleFlags,
        reason: u64,
        now: Time,
        event: fn(&mut StatusReport) -> &mut Status,
    ) {
        if of.0.primary.flags.has(flag) {
            self.send_report(of, reason, now, event);
        }
    }

    /// Sends a report, except on records and bundles of the null source.
    ///
    /// The null endpoint gets no reports either, and bundles of a guest cause a bounded number of reports and bytes. A report counts to the account of the bundle.
    fn send_report(
        &mut self,
        (bundle, share): (&Bundle, Share),
        reason: u64,
        now: Time,
        event: fn(&mut StatusReport) -> &mut Status,
    ) {
        let Primary { flags, report_to, source, timestamp, lifetime, .. } = &bundle.primary;
        let is_nameless = flags.has(BundleFlags::ADMIN) || source.is_null();
        if !self.config.reports || is_nameless || report_to.is_null() || self.is_reporting {
            return;
        }
        let (fragment, len) = place_of(bundle);
        let mut report =
            StatusReport { reason, ..StatusReport::new(source.clone(), *timestamp, fragment, len) };
        let time = flags.has(BundleFlags::REPORT_TIME).then(|| self.dtn_time(now));
        *event(&mut report) = Status { is_asserted: true, time };
        let (stamp, lifetime) = (self.timestamp(now), (*lifetime).max(LEAST_LIFETIME));
        let mut primary = Primary::new(self.config.eid.clone(), report_to.clone(), stamp, lifetime);
        primary.flags = BundleFlags::ADMIN;
        let payload = Payload::new(Record::Status(report).to_vec());
        let report = Bundle { primary, blocks: vec![], payload };
        if share.is_guest() && !self.rations.take(share, report.encoded_len() + PREVIOUS_NODE, now) {
            self.counts.reports_left_out += 1;
            return;
        }
        self.counts.reports += 1;
        self.is_reporting = true;
        self.accept(report, None, share, now);
        self.is_reporting = false;
    }
}
