// A cell of 802.16 with one call a station, for ns-3.37: the peer of docs/explanation/wimax-in-ns-3.md.
//
//   g++ -O2 -std=c++17 wimax.cc -o wimax -lns3-wimax -lns3-applications -lns3-internet -lns3-network \
//     -lns3-flow-monitor -lns3-mobility -lns3-propagation -lns3-core
//   ./wimax --houses=10 --service=rt-ps --duration=20
//
// A call is G.729: 60 bytes of IP packet each 20 ms in both directions, without pauses. Times are in a row of text.

#include <chrono>
#include <iostream>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/flow-monitor-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/wimax-module.h"

using namespace ns3;

namespace {

const uint16_t FIRST_PORT = 5000;

// Milliseconds; 0: the helper's. The downlink serves UGS and rtPS once in the one, the uplink grants UGS once in the other.
uint32_t latency = 0, jitter = 0;

ServiceFlow::SchedulingType service_of(const std::string &name) {
    if (name == "ugs") return ServiceFlow::SF_TYPE_UGS;
    if (name == "rt-ps") return ServiceFlow::SF_TYPE_RTPS;
    return ServiceFlow::SF_TYPE_BE;
}

ServiceFlow flow_between(WimaxHelper &wimax, Ipv4Address from, Ipv4Address to, uint16_t port,
                         ServiceFlow::Direction direction, ServiceFlow::SchedulingType type) {
    const Ipv4Mask host("255.255.255.255");
    IpcsClassifierRecord record(from, host, to, host, 0, 65000, port, port, 17, 1);
    ServiceFlow flow = wimax.CreateServiceFlow(direction, type, record);
    if (latency > 0) flow.SetMaximumLatency(latency);
    if (jitter > 0) flow.SetToleratedJitter(jitter);
    return flow;
}

void call(Ptr<Node> from, Ptr<Node> to, Ipv4Address address, uint16_t port, double start, double stop) {
    UdpServerHelper server(port);
    server.Install(to).Start(Seconds(0));
    UdpClientHelper client(address, port);
    client.SetAttribute("MaxPackets", UintegerValue(1u << 30));
    client.SetAttribute("Interval", TimeValue(MilliSeconds(20)));
    client.SetAttribute("PacketSize", UintegerValue(32));
    ApplicationContainer sender = client.Install(from);
    sender.Start(Seconds(start));
    sender.Stop(Seconds(stop));
}

} // namespace

int main(int argc, char **argv) {
    uint32_t houses = 20;
    double duration = 20, settle = 5;
    std::string service = "ugs";
    CommandLine line;
    line.AddValue("houses", "stations, with a call each", houses);
    line.AddValue("service", "ugs, rt-ps or be", service);
    line.AddValue("duration", "seconds of the calls", duration);
    line.AddValue("settle", "seconds for ranging and service flows before them", settle);
    line.AddValue("latency", "maximum latency of a service flow in ms", latency);
    line.AddValue("jitter", "tolerated jitter of a service flow in ms", jitter);
    line.Parse(argc, argv);

    NodeContainer base, stations;
    base.Create(1);
    stations.Create(houses);
    WimaxHelper wimax;
    const auto phy = WimaxHelper::SIMPLE_PHY_TYPE_OFDM;
    const auto scheduler = WimaxHelper::SCHED_TYPE_SIMPLE;
    NetDeviceContainer down = wimax.Install(stations, WimaxHelper::DEVICE_TYPE_SUBSCRIBER_STATION, phy, scheduler);
    NetDeviceContainer up = wimax.Install(base, WimaxHelper::DEVICE_TYPE_BASE_STATION, phy, scheduler);

    InternetStackHelper stack;
    stack.Install(base);
    stack.Install(stations);
    Ipv4AddressHelper addresses("10.1.0.0", "255.255.0.0");
    Ipv4InterfaceContainer of_stations = addresses.Assign(down);
    Ipv4InterfaceContainer of_base = addresses.Assign(up);

    const auto type = service_of(service);
    Ptr<UniformRandomVariable> phase = CreateObject<UniformRandomVariable>();
    for (uint32_t n = 0; n < houses; n++) {
        Ptr<SubscriberStationNetDevice> device = down.Get(n)->GetObject<SubscriberStationNetDevice>();
        device->SetModulationType(WimaxPhy::MODULATION_TYPE_QAM16_34);
        const uint16_t port = FIRST_PORT + n;
        const Ipv4Address house = of_stations.GetAddress(n), hub = of_base.GetAddress(0);
        device->AddServiceFlow(flow_between(wimax, house, hub, port, ServiceFlow::SF_DIRECTION_UP, type));
        device->AddServiceFlow(flow_between(wimax, hub, house, port, ServiceFlow::SF_DIRECTION_DOWN, type));
        const double start = settle + phase->GetValue(0, 0.02);
        call(stations.Get(n), base.Get(0), hub, port, start, settle + duration);
        call(base.Get(0), stations.Get(n), house, port, start, settle + duration);
    }

    FlowMonitorHelper monitors;
    Ptr<FlowMonitor> monitor = monitors.InstallAll();
    Simulator::Stop(Seconds(settle + duration + 1));
    const auto begin = std::chrono::steady_clock::now();
    Simulator::Run();
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;

    Ptr<Ipv4FlowClassifier> classifier = DynamicCast<Ipv4FlowClassifier>(monitors.GetClassifier());
    double sent[2] = {}, received[2] = {}, delay[2] = {};
    for (const auto &[id, stats] : monitor->GetFlowStats()) {
        const auto tuple = classifier->FindFlow(id);
        if (tuple.destinationPort < FIRST_PORT) continue;
        const int way = tuple.destinationAddress == of_base.GetAddress(0);
        sent[way] += stats.txPackets;
        received[way] += stats.rxPackets;
        delay[way] += stats.delaySum.GetSeconds();
    }
    for (int way = 0; way < 2; way++) {
        std::cout << (way ? "up" : "down") << ": sent " << sent[way] << ", lost " << 1 - received[way] / sent[way]
                  << ", mean delay " << 1e3 * delay[way] / received[way] << " ms\n";
    }
    std::cout << "packets left in the queues of the stations:";
    for (uint32_t n = 0; n < houses; n++) {
        Ptr<SubscriberStationNetDevice> device = down.Get(n)->GetObject<SubscriberStationNetDevice>();
        for (ServiceFlow *flow : device->GetServiceFlowManager()->GetServiceFlows(ServiceFlow::SF_TYPE_ALL)) {
            if (flow->GetDirection() == ServiceFlow::SF_DIRECTION_UP) std::cout << " " << flow->GetQueue()->GetSize();
        }
    }
    std::cout << "\nwall " << wall.count() << " s, events " << Simulator::GetEventCount() << "\n";
    Simulator::Destroy();
    return 0;
}
