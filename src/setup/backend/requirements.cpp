#include "setup/backend/requirements.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>

#include "core/errors/error.h"
#include "core/text/take_until.h"
#include "model/weights.h"

namespace nibble {
namespace {

constexpr Format kFormats[]{Format::kF32, Format::kBf16, Format::kMxfp4, Format::kE4m3, Format::kQ8_0};
// Formats that only activations have.
constexpr std::initializer_list<Format> kOfActivations{Format::kMxfp8, Format::kMxfp8x2};

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return lower;
}

std::string_view first_word(std::string_view text) { return text.substr(0, text.find(' ')); }

bool is_named(std::string_view operation, std::string_view name) {
  return operation == name || first_word(operation) == name;
}

void append_once(std::vector<std::string_view>& words, std::string_view word) {
  if (std::ranges::find(words, word) == words.end()) words.push_back(word);
}

std::string read_format(std::string_view requirement, std::string_view format,
                        std::initializer_list<Format> others = {}) {
  std::vector<std::string> names;
  for (const Format known : kFormats) names.push_back(lower_case(nibble::name(known)));
  names.push_back("int8");  // Only activations have this format.
  for (const Format other : others) names.push_back(lower_case(nibble::name(other)));
  if (std::ranges::find(names, lower_case(format)) == names.end())
    throw InputError("--require '{}': unknown format '{}'; expected one of {}", requirement, format,
                     fmt::join(names, ", "));
  return lower_case(format);
}

void check_operation(std::string_view requirement, std::string_view operation) {
  std::vector<std::string_view> first_words;
  for (const Operation known : kOperations) {
    if (is_named(name(known), operation)) return;
    append_once(first_words, first_word(name(known)));
  }
  throw InputError("--require '{}': unknown operation '{}'; expected one of {}", requirement, operation,
                   fmt::join(first_words, ", "));
}

Requirement read_requirement(std::string_view text) {
  std::string_view formats = text;
  const std::string_view operation = take_until(formats, '=');
  if (operation.size() == text.size())
    throw InputError(
        "--require '{}': expected OPERATION=WEIGHTS or OPERATION=WEIGHTS/ACTIVATIONS, such as experts=mxfp4 "
        "or experts=mxfp4/bf16",
        text);
  check_operation(text, operation);
  const bool names_activations = formats.find('/') != std::string_view::npos;
  const std::string_view weights = take_until(formats, '/'), activations = formats;
  return {std::string(text), std::string(operation), read_format(text, weights),
          names_activations ? std::optional(read_format(text, activations, kOfActivations)) : std::nullopt};
}

void check_requirement(const Requirement& requirement, std::string_view backend,
                       std::span<const KernelChoice> kernels) {
  std::vector<std::string_view> operations;
  bool is_found = false;
  for (const KernelChoice& row : kernels) {
    append_once(operations, first_word(name(row.operation)));
    if (!is_named(name(row.operation), requirement.operation)) continue;
    is_found = true;
    const std::string weights = lower_case(row.weights), activations = lower_case(row.activations);
    if (weights == requirement.weights && requirement.activations.value_or(activations) == activations)
      continue;
    throw InputError(
        "--require '{}': the backend {} runs {} as {}/{} here ({}); 'nibble inspect MODEL --kernels' shows "
        "all rows",
        requirement.text, backend, name(row.operation), weights, activations, row.kernel);
  }
  if (!is_found)
    throw InputError("--require '{}': the backend {} has no operation '{}'; expected one of {}",
                     requirement.text, backend, requirement.operation, fmt::join(operations, ", "));
}

}  // namespace

std::vector<Requirement> read_requirements(std::string_view list) {
  std::vector<Requirement> requirements;
  while (!list.empty()) requirements.push_back(read_requirement(take_until(list, ',')));
  return requirements;
}

void check_requirements(std::span<const Requirement> requirements, std::string_view backend,
                        std::span<const KernelChoice> kernels) {
  for (const Requirement& requirement : requirements) check_requirement(requirement, backend, kernels);
}

}  // namespace nibble
