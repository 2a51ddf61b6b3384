// Saturated IEEE 802.15.4 devices that send to one sink, for a comparison with bentpipe's `wireless::wpan`.
#include <ns3/core-module.h>
#include <ns3/network-module.h>
#include <ns3/mobility-module.h>
#include <ns3/propagation-module.h>
#include <ns3/spectrum-module.h>
#include <ns3/lr-wpan-module.h>
#include <iostream>
#include <set>
using namespace ns3;

static uint64_t arrived = 0;
static uint8_t handle = 0;
static uint32_t payload = 25;
static double warm = 1;

static void Send(Ptr<LrWpanNetDevice> device) {
  McpsDataRequestParams params;
  params.m_srcAddrMode = SHORT_ADDR;
  params.m_dstAddrMode = SHORT_ADDR;
  params.m_dstPanId = 0;
  params.m_dstAddr = Mac16Address("00:01");
  params.m_msduHandle = handle++;
  params.m_txOptions = TX_OPTION_ACK;
  device->GetMac()->McpsDataRequest(params, Create<Packet>(payload));
}
static void Done(Ptr<LrWpanNetDevice> device, McpsDataConfirmParams) { Simulator::ScheduleNow(&Send, device); }
static std::set<uint64_t> known;
// The MAC of ns-3.37 hands over repeated frames too.
static void Received(McpsDataIndicationParams, Ptr<Packet> packet) { if (known.insert(packet->GetUid()).second && Simulator::Now().GetSeconds() > warm) ++arrived; }

int main(int argc, char** argv) {
  uint32_t devices = 2; double seconds = 100; double snr = 1.35;
  CommandLine cmd;
  cmd.AddValue("devices", "", devices); cmd.AddValue("seconds", "", seconds);
  cmd.AddValue("payload", "", payload); cmd.AddValue("snr", "at the sink; 0: no added noise", snr);
  cmd.Parse(argc, argv);
  auto channel = CreateObject<SingleModelSpectrumChannel>();
  auto loss = CreateObject<MatrixPropagationLossModel>(); loss->SetDefaultLoss(60);
  channel->AddPropagationLossModel(loss);
  channel->SetPropagationDelayModel(CreateObject<ConstantSpeedPropagationDelayModel>());
  NodeContainer nodes; nodes.Create(devices + 1);
  std::vector<Ptr<LrWpanNetDevice>> all;
  for (uint32_t n = 0; n <= devices; ++n) {
    auto device = CreateObject<LrWpanNetDevice>();
    char text[8]; snprintf(text, sizeof text, "%02x:%02x", (n + 1) >> 8, (n + 1) & 255);
    device->SetAddress(Mac16Address(text));
    device->SetChannel(channel);
    nodes.Get(n)->AddDevice(device);
    auto mobility = CreateObject<ConstantPositionMobilityModel>();
    mobility->SetPosition(Vector(n * 0.01, 0, 0));
    device->GetPhy()->SetMobility(mobility);
    all.push_back(device);
    if (n > 0) loss->SetLoss(all[0]->GetPhy()->GetMobility(), mobility, 70);
  }
  if (snr > 0) {
    LrWpanSpectrumValueHelper helper;
    auto noise = helper.CreateNoisePowerSpectralDensity(11);
    double total = LrWpanSpectrumValueHelper::TotalAvgPower(noise, 11);
    *noise *= 1e-10 / snr / total;
    all[0]->GetPhy()->SetNoisePowerSpectralDensity(noise);
  }
  all[0]->GetMac()->SetMcpsDataIndicationCallback(MakeCallback(&Received));
  for (uint32_t n = 1; n <= devices; ++n) {
    all[n]->GetMac()->SetMcpsDataConfirmCallback(MakeBoundCallback(&Done, all[n]));
    // Off the grid of 320 us, on which assessments and frames would begin at equal instants.
    Simulator::Schedule(NanoSeconds(320000 * n + n * 245489 % 32000), &Send, all[n]);
  }
  Simulator::Stop(Seconds(warm + seconds));
  Simulator::Run();
  std::cout << devices << " devices, " << payload << " B, snr " << snr << ": " << arrived / seconds << " frames/s\n";
  Simulator::Destroy();
}
