//! Metrics of routers that approve Quick-Start requests.

crate::metrics! {
    Counter REQUESTS = "requests", Count, "Quick-Start requests";
    Counter APPROVED = "approved", Count, "Requests approved";
    Counter LOWERED = "lowered", Count, "Requests approved at a lower rate";
    Counter REFUSED = "refused", Count, "Requests refused";
    Gauge AVAILABLE = "available", BitsPerSecond, "Rate that can be approved";
}
