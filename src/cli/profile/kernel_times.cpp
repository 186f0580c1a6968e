#include "cli/profile/kernel_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/measure/sample_statistics.h"
#include "core/text/bytes_text.h"

namespace nibble::cli {
namespace {

constexpr const char* kKernelRow{
    "| {:<20} | {:<20} | {:>9} | {:>7} | {:>8} | {:>8} | {:>8} | {:>10} | {:>7} | {:>6} | {:>7} |\n"};

// Times of one kernel's launches.
struct Launches {
  std::string_view kernel;
  size_t part;
  std::vector<double> of_steps;  // microseconds of all launches of a repetition together
  std::vector<double> single;    // microseconds of each launch
};

Launches& find_or_add(std::vector<Launches>& all, const TimedWork& work, size_t num_steps) {
  const size_t part = part_of(work);
  const auto found = std::ranges::find_if(
      all, [&](const Launches& launches) { return launches.kernel == work.name && launches.part == part; });
  if (found != all.end()) return *found;
  return all.emplace_back(Launches{work.name, part, std::vector<double>(num_steps), {}});
}

// Returns the smallest sample that at least 99 % of the samples do not exceed.
double p99(std::vector<double> samples) {
  std::ranges::sort(samples);
  return samples[static_cast<size_t>(std::ceil(0.99 * static_cast<double>(samples.size()))) - 1];
}

double rate(double count, double microseconds) { return microseconds > 0 ? count / microseconds * 1e6 : 0; }
double bytes_per_second(const KernelTime& kernel) {
  return rate(static_cast<double>(kernel.bytes), kernel.microseconds);
}
double flops_per_second(const KernelTime& kernel) {
  return rate(static_cast<double>(kernel.flops), kernel.microseconds);
}

template <typename Fits>
KernelTime* longest(std::vector<KernelTime>& kernels, const Fits& fits) {
  KernelTime* found = nullptr;
  for (KernelTime& kernel : kernels)
    if (fits(kernel) && (!found || kernel.microseconds > found->microseconds)) found = &kernel;
  return found;
}

void add_cost(std::vector<KernelTime>& kernels, const OperationCost& row) {
  const std::string_view part = kPartNames[part_of(row.operation)];
  KernelTime* kernel = longest(
      kernels, [&](const KernelTime& of) { return of.part == part && of.operation == row.operation; });
  if (!kernel) kernel = longest(kernels, [&](const KernelTime& of) { return of.part == part; });
  if (!kernel) return;
  kernel->bytes += row.cost.bytes_touched();
  kernel->flops += row.cost.flops;
}

// Compares the times of gate_up and down. gate_up has twice the rows, so it should take twice the time.
std::string halves_of_experts(std::span<const KernelTime> kernels) {
  KernelTime up, down;
  for (const KernelTime& kernel : kernels)
    if (kernel.part == kPartNames[part_of(Operation::kExpertsUp)]) {
      KernelTime& half = kernel.operation == Operation::kExpertsUp ? up : down;
      half.microseconds += kernel.microseconds;
      half.bytes += kernel.bytes;
    }
  if (up.bytes == 0 || down.bytes == 0 || down.microseconds == 0) return "";
  return fmt::format(
      "\n- experts up takes {:.2f} times the time of experts down, for {:.2f} times the bytes\n",
      up.microseconds / down.microseconds, static_cast<double>(up.bytes) / static_cast<double>(down.bytes));
}

}  // namespace

std::vector<KernelTime> kernel_times(std::span<const std::vector<TimedWork>> repetitions,
                                     std::span<const OperationCost> costs) {
  std::vector<Launches> all;
  std::vector<KernelTime> kernels;
  for (size_t step = 0; step < repetitions.size(); ++step) {
    const std::vector<OwnTime> times = own_times(repetitions[step]);
    for (size_t i = 0; i < times.size(); ++i) {
      const TimedWork& work = repetitions[step][i];
      Launches& launches = find_or_add(all, work, repetitions.size());
      if (all.size() > kernels.size())
        kernels.push_back(
            {.kernel = work.name, .part = kPartNames[part_of(work)], .operation = work.operation});
      launches.of_steps[step] += times[i].busy;
      launches.single.push_back(times[i].busy);
      if (step == 0) ++kernels[static_cast<size_t>(&launches - all.data())].num_launches;
    }
  }
  for (size_t i = 0; i < kernels.size(); ++i) {
    kernels[i].microseconds = statistics_of(all[i].of_steps).median;
    kernels[i].launch_median = statistics_of(all[i].single).median;
    kernels[i].launch_p99 = p99(all[i].single);
  }
  for (const OperationCost& row : costs) add_cost(kernels, row);
  return kernels;
}

std::string kernel_table(std::span<const KernelTime> kernels, double read_bandwidth, double step) {
  std::string table = fmt::format(kKernelRow, "kernel", "part", "us", "of step", "launches", "p50 us",
                                  "p99 us", "bytes", "GB/s", "share", "TFLOP/s");
  for (const char c : std::string(table)) table += c == '|' || c == '\n' ? c : '-';
  for (const KernelTime& kernel : kernels) {
    const double speed = bytes_per_second(kernel);
    table +=
        fmt::format(kKernelRow, kernel.kernel, kernel.part, fmt::format("{:.1f}", kernel.microseconds),
                    fmt::format("{:.1f} %", 100 * kernel.microseconds / step), kernel.num_launches,
                    fmt::format("{:.2f}", kernel.launch_median), fmt::format("{:.2f}", kernel.launch_p99),
                    kernel.bytes > 0 ? bytes_text(kernel.bytes) : "-", fmt::format("{:.1f}", speed / 1e9),
                    fmt::format("{:.1f} %", 100 * speed / read_bandwidth),
                    fmt::format("{:.3f}", flops_per_second(kernel) / 1e12));
  }
  return table + halves_of_experts(kernels);
}

Json to_json(std::span<const KernelTime> kernels, double read_bandwidth) {
  Json rows = Json::array();
  for (const KernelTime& kernel : kernels)
    rows.push_back({{"kernel", kernel.kernel},
                    {"part", kernel.part},
                    {"operation", name(kernel.operation)},
                    {"us", kernel.microseconds},
                    {"launches", kernel.num_launches},
                    {"launch_us", {{"median", kernel.launch_median}, {"p99", kernel.launch_p99}}},
                    {"bytes", kernel.bytes},
                    {"share_of_read_bandwidth", bytes_per_second(kernel) / read_bandwidth},
                    {"flops_per_second", flops_per_second(kernel)}});
  return rows;
}

}  // namespace nibble::cli
