// Saturated devices of unslotted CSMA-CA with the rules of either simulator, to isolate why they differ (docs/models/wpan.md).
//
//     g++ -O2 -std=c++17 wpan-rules.cc -o wpan-rules
//     ./wpan-rules DEVICES SECONDS [cca] [capture] [grid]
//
// "cca": a frame that ends during an assessment is not noticed. "capture": the sink receives the first of several frames by its bit
// errors, at a signal-to-noise ratio of 1.35. "grid": devices begin on a grid of 320 us.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <queue>
#include <random>
#include <vector>

using Time = long long;  // ns
const Time UNIT = 320'000, CCA = 128'000, TURNAROUND = 192'000, ACK = 352'000, WAIT = 864'000, SPACING = 640'000;
const Time FRAME = (25 + 11 + 6) * 32'000, SYMBOL_QUARTER = 4'000;
const double SNR = 1.35;
bool has_cca, has_capture;

struct Burst { int from; Time start, end; int number; };
enum Step { Begin, Assess, Start, End, AckEnd, Timeout };
struct Event { Time at; long order; int device; Step step; int number;
  bool operator<(const Event& o) const { return at != o.at ? at > o.at : order > o.order; } };
struct Device { int backoffs, exponent, tries, frame; bool is_delivered, waits; };

std::mt19937_64 source(1);
std::priority_queue<Event> agenda;
std::vector<Device> devices;
std::vector<Burst> air;
Time now = 0;
long order = 0;
int bursts = 0, locked = -1;

double unit() { return std::uniform_real_distribution<>(0, 1)(source); }
void schedule(Time at, int device, Step step, int number = 0) { agenda.push({at, order++, device, step, number}); }

// Bit error ratio of O-QPSK (IEEE 802.15.4-2006, annex E).
double errors(double snr) {
  double sum = 0, ways = 16;
  for (int k = 2; k <= 16; ++k) {
    ways = ways * (17 - k) / k;
    sum += (k % 2 ? -ways : ways) * std::exp(20 * snr * (1.0 / k - 1));
  }
  return std::clamp(sum * 8 / 15 / 16, 0.0, 0.5);
}

bool is_busy(int device, Time from, Time to) {
  return std::any_of(air.begin(), air.end(), [&](const Burst& burst) {
    if (burst.from == device || burst.start >= to) return false;
    return has_cca ? burst.end > to || burst.start >= from : burst.end > from;
  });
}

void back_off(int device) {
  int units = int(unit() * (1 << devices[device].exponent));
  schedule(now + UNIT * units + CCA, device, Assess);
}
void contend(int device) { devices[device].backoffs = 0; devices[device].exponent = 3; back_off(device); }
void begin(int device) { devices[device].tries = 0; devices[device].is_delivered = false; contend(device); }

// Whether the sink receives a frame that has just ended.
bool is_received(const Burst& frame) {
  std::vector<Time> cuts{frame.start, frame.end};
  for (const Burst& other : air) {
    if (other.number == frame.number || other.start >= frame.end || other.end <= frame.start) continue;
    if (other.from == 0 || !has_capture) return false;
    cuts.push_back(std::max(other.start, frame.start));
    cuts.push_back(std::min(other.end, frame.end));
  }
  if (!has_capture) return true;
  std::sort(cuts.begin(), cuts.end());
  double chance = 1;
  for (size_t n = 0; n + 1 < cuts.size(); ++n) {
    auto overlaps = [&](const Burst& other) {
      return other.number != frame.number && other.start < cuts[n + 1] && other.end > cuts[n]; };
    auto others = std::count_if(air.begin(), air.end(), overlaps);
    chance *= std::pow(1 - errors(1 / (others + 1 / SNR)), double(cuts[n + 1] - cuts[n]) / SYMBOL_QUARTER);
  }
  return unit() < chance;
}

int main(int count, char** words) {
  int number = std::atoi(words[1]);
  double seconds = std::atof(words[2]);
  auto has = [&](const char* word) {
    return std::any_of(words + 3, words + count, [&](char* given) { return !std::strcmp(given, word); }); };
  has_cca = has("cca"), has_capture = has("capture");
  devices.resize(number + 1);
  for (int n = 1; n <= number; ++n) schedule(UNIT * n + (has("grid") ? 0 : n * 245'489LL % 32'000), n, Begin);
  long delivered = 0;
  while (agenda.top().at < Time(seconds * 1e9)) {
    Event event = agenda.top();
    agenda.pop();
    now = event.at;
    air.erase(std::remove_if(air.begin(), air.end(), [](const Burst& b) { return b.end + 5'000'000 < now; }), air.end());
    auto burst = [&] { return *std::find_if(air.begin(), air.end(), [&](auto& b) { return b.number == event.number; }); };
    Device& device = devices[event.device];
    switch (event.step) {
    case Begin: begin(event.device); break;
    case Assess:
      if (!is_busy(event.device, now - CCA, now)) { schedule(now + TURNAROUND, event.device, Start); break; }
      device.exponent = std::min(device.exponent + 1, 5);
      ++device.backoffs > 4 ? begin(event.device) : back_off(event.device);
      break;
    case Start: {
      Burst frame{event.device, now, now + FRAME, ++bursts};
      auto others = std::count_if(air.begin(), air.end(), [](auto& b) { return b.start <= now && b.end > now; });
      bool sends = std::any_of(air.begin(), air.end(), [](auto& b) {
        return b.from == 0 && b.start - TURNAROUND <= now && b.end > now; });
      // Below -5 dB ns-3 does not try to receive.
      if (locked < 0 && !sends && 10 * std::log10(1 / (others + 1 / SNR)) > -5) locked = frame.number;
      air.push_back(frame);
      device.frame = frame.number;
      schedule(frame.end, event.device, End, frame.number);
      break;
    }
    case End: {
      bool is_locked = locked == event.number;
      if (is_locked) locked = -1;
      device.waits = true;
      schedule(now + WAIT, event.device, Timeout, event.number);
      if ((has_capture && !is_locked) || !is_received(burst())) break;
      delivered += !device.is_delivered;
      device.is_delivered = true;
      air.push_back({0, now + TURNAROUND, now + TURNAROUND + ACK, ++bursts});
      schedule(now + TURNAROUND + ACK, event.device, AckEnd, bursts);
      break;
    }
    case AckEnd: {
      Burst ack = burst();
      bool collides = std::any_of(air.begin(), air.end(), [&](auto& b) {
        return b.number != ack.number && b.start < ack.end && b.end > ack.start; });
      if (collides || !device.waits) break;
      device.waits = false;
      schedule(now + SPACING, event.device, Begin);
      break;
    }
    case Timeout:
      if (!device.waits || device.frame != event.number) break;
      device.waits = false;
      ++device.tries > 3 ? begin(event.device) : contend(event.device);
    }
  }
  std::printf("%d devices: %.1f frames/s\n", number, delivered / seconds);
}
