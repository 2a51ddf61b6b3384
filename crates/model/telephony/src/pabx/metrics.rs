//! Metrics of an exchange, in addition to those of callers and callees.

bentpipe_net::metrics! {
    Counter LOCAL = "calls-to-extensions", Count, "Calls to extensions of the site";
    Counter OUTGOING = "calls-out", Count, "Calls to other sites";
    Counter INCOMING = "calls-in", Count, "Calls from other sites over IAX2 trunks";
    Counter REFUSED = "calls-refused", Count, "Calls refused: unknown number, or no phone registered";
    Counter NOT_ADMITTED = "calls-not-admitted", Count, "Calls refused by the limit of a rule";
}
