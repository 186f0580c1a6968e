#include "setup/require.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"
#include "model/weights.h"

namespace nibble {
namespace {

constexpr Format kFormats[]{Format::kF32, Format::kBf16, Format::kMxfp4, Format::kE4m3, Format::kQ8_0};

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return lower;
}

std::string_view first_word(std::string_view text) { return text.substr(0, text.find(' ')); }

// The part before `end`, which is taken away with it.
std::string_view take_until(std::string_view& text, char end) {
  const std::string_view part = text.substr(0, text.find(end));
  text.remove_prefix(std::min(text.size(), part.size() + 1));
  return part;
}

void check_format(std::string_view requirement, std::string_view format) {
  std::vector<std::string> names;
  for (const Format known : kFormats) names.push_back(lower_case(nibble::name(known)));
  names.push_back("int8");  // of activations alone
  if (std::find(names.begin(), names.end(), lower_case(format)) == names.end())
    throw InputError("--require '{}': no kernel has the format '{}'; accepted are {}", requirement, format,
                     fmt::join(names, ", "));
}

void require_one(std::string_view requirement, std::string_view backend,
                 std::span<const KernelChoice> kernels) {
  std::string_view formats = requirement;
  const std::string_view operation = take_until(formats, '=');
  if (operation.size() == requirement.size())
    throw InputError(
        "--require '{}': accepted is OPERATION=WEIGHTS or OPERATION=WEIGHTS/ACTIVATIONS, as in "
        "experts=mxfp4 or experts=mxfp4/bf16",
        requirement);
  const bool names_activations = formats.find('/') != std::string_view::npos;
  const std::string_view weights = take_until(formats, '/'), activations = formats;
  check_format(requirement, weights);
  if (names_activations) check_format(requirement, activations);

  std::vector<std::string_view> operations;
  bool is_known = false;
  for (const KernelChoice& row : kernels) {
    if (std::find(operations.begin(), operations.end(), first_word(row.operation)) == operations.end())
      operations.push_back(first_word(row.operation));
    if (row.operation != operation && first_word(row.operation) != operation) continue;
    is_known = true;
    if (lower_case(row.weights) == lower_case(weights) &&
        (!names_activations || lower_case(row.activations) == lower_case(activations)))
      continue;
    throw InputError(
        "--require '{}': the backend {} runs {} as {}/{} here ({}); 'nibble inspect MODEL --kernels' shows "
        "all rows",
        requirement, backend, row.operation, lower_case(row.weights), lower_case(row.activations),
        row.kernel);
  }
  if (!is_known)
    throw InputError("--require '{}': the backend {} has no operation '{}'; accepted are {}", requirement,
                     backend, operation, fmt::join(operations, ", "));
}

}  // namespace

void require_kernels(std::string_view list, std::string_view backend, std::span<const KernelChoice> kernels) {
  while (!list.empty()) require_one(take_until(list, ','), backend, kernels);
}

}  // namespace nibble
