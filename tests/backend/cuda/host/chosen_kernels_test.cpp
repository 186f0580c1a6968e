// Compares the kernel of each operation with chosen_kernels.txt, for every weight format, number of rows,
// GPU, budget and --prompt-activations. A changed table shows as a change of that file. Needs no GPU.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/chip/caps.h"
#include "backend/cuda/cuda_options.h"
#include "backend/cuda/plan.h"
#include "tests/folders.h"

namespace nibble::cuda {
namespace {

constexpr int kMostRows{2048};

struct NamedTarget {
  std::string name;
  Target target;
};

// Returns every family in each budget that it has room for, with its own code and with code for sm_80.
std::vector<NamedTarget> all_targets() {
  std::vector<NamedTarget> targets;
  for (const Family family : kFamilies) {
    const DeviceCaps own = known_gpu(name(family)), portable = with_code_of(own, 80);
    for (const int budget : {99, 163, 227}) {
      if (static_cast<size_t>(budget) > own.shared_bytes >> 10) continue;
      const std::string text = fmt::format("{} {} KB", name(family), budget);
      targets.push_back({text, target_of(own, {.shared_budget = budget})});
      targets.push_back({text + " by code of sm_80", target_of(portable, {.shared_budget = budget})});
    }
  }
  return targets;
}

std::string pass_text(const Pass& pass) {
  std::string text = fmt::format("{} columns", pass.columns);
  if (pass.takes_norm) text += ", takes norm";
  if (pass.leaves_parts) text += ", leaves parts";
  if (pass.takes_image) text += ", takes image";
  if (pass.deals_out) text += ", dealt";
  if (pass.makes_norm) text += ", makes norm";
  return text;
}

// Returns a text with the kernels that a plan uses for an operation: for each range of step sizes, the row of
// the kernel table that find() returns.
std::string ranges_text(const Plan& plan, const Config& config, Operation operation) {
  std::string text;
  for (int from = 1; from <= kMostRows;) {
    const KernelRow* row = plan.find(operation, from);
    int to = from;
    while (to < kMostRows && plan.find(operation, to + 1) == row) ++to;
    const std::string range = fmt::format("{}-{}", from, to);
    if (row)
      text += fmt::format("    {:<9}  {:<28}  {}\n               {} activations; {}; {} bytes; {}\n", range,
                          name(*row), row->kernel, nibble::name(row->activations), pass_text(row->pass),
                          row->shared_bytes ? row->shared_bytes(config, row->weights) : 0, row->reason);
    else
      text += fmt::format("    {:<9}  none\n", range);
    from = to + 1;
  }
  return text;
}

// The text of a plan, by operation and format of its weights.
using PlanText = std::map<std::pair<Operation, Format>, std::string>;

PlanText plan_text(const Target& target, std::optional<BlockFormat> prompt_activations) {
  const Config config = *named_config("gpt-oss-120b");
  PlanText text;
  for (const Format dense : {Format::kBf16, Format::kE4m3, Format::kMxfp4})
    for (const Format kv : {Format::kBf16, Format::kE4m3}) {
      BackendOptions options;
      options.max_batch_tokens = kMostRows;
      options.dense = {dense, dense, dense};
      options.kv_format = kv;
      const Plan plan(config, options, target, "a test", {prompt_activations});
      for (const KernelRow* row : plan.chosen())
        text[{row->operation, row->weights}] = ranges_text(plan, config, row->operation);
    }
  return text;
}

// Lists table rows in a section per operation and weight format. Targets with the same plans share a letter.
std::string chosen_kernels() {
  std::vector<std::pair<std::vector<PlanText>, std::vector<std::string>>> classes;
  for (const NamedTarget& named : all_targets()) {
    std::vector<PlanText> plans{plan_text(named.target, {})};
    for (const BlockFormat format : kBlockFormats) plans.push_back(plan_text(named.target, format));
    const auto found =
        std::find_if(classes.begin(), classes.end(), [&](const auto& known) { return known.first == plans; });
    if (found == classes.end())
      classes.push_back({std::move(plans), {named.name}});
    else
      found->second.push_back(named.name);
  }

  std::vector<std::string> activations{""};
  for (const BlockFormat format : kBlockFormats)
    activations.push_back(fmt::format(" {}", nibble::name(format_of(format))));
  std::string text = "GPUs, by the plans that they share:\n";
  std::map<std::pair<Operation, Format>, std::map<std::string, std::vector<std::string>>> sections;
  for (size_t c = 0; c < classes.size(); ++c) {
    const char letter = static_cast<char>('A' + c);
    text += fmt::format("  {}: {}\n", letter, fmt::join(classes[c].second, "\n     "));
    for (size_t a = 0; a < activations.size(); ++a)
      for (const auto& [of, ranges] : classes[c].first[a])
        sections[of][ranges].push_back(fmt::format("{}{}", letter, activations[a]));
  }
  for (const auto& [of, variants] : sections) {
    text += fmt::format("\n{} of {}\n", nibble::name(of.first), nibble::name(of.second));
    for (const auto& [ranges, letters] : variants)
      text += fmt::format("  {}\n{}",
                          letters.size() == classes.size() * activations.size()
                              ? "all"
                              : fmt::format("{}", fmt::join(letters, ", ")),
                          ranges);
  }

  text += "\nAll rows, by name:\n";
  std::set<std::string> names;
  for (const KernelRow& row : kernel_rows()) names.insert(name(row));
  for (const std::string& name : names) text += "  " + name + "\n";
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(CudaChosenKernels, AreThoseOfTheGoldenText) {
  const std::string chosen = chosen_kernels();
  const std::string path = nibble::test::source_path("tests/backend/cuda/host/chosen_kernels.txt");
  std::ifstream in(path, std::ios::binary);
  const std::string golden{std::istreambuf_iterator<char>(in), {}};
  if (chosen == golden) return;
  const std::string written = nibble::test::build_path("chosen_kernels.txt");
  std::ofstream(written, std::ios::binary) << chosen;
  const std::vector<std::string> is = lines_of(chosen), was = lines_of(golden);
  const auto [at, of_golden] = std::mismatch(is.begin(), is.end(), was.begin(), was.end());
  ADD_FAILURE() << "line " << at - is.begin() + 1 << "\n  is  " << (at == is.end() ? "(missing)" : *at)
                << "\n  was " << (of_golden == was.end() ? "(missing)" : *of_golden)
                << "\nIf the change is wanted, copy " << written << " to " << path;
}

}  // namespace
}  // namespace nibble::cuda
