// uniqueItems for arrays whose items have few possible values: lists these values or, if that does not
// suffice, all possible arrays.
#include <algorithm>
#include <set>

#include "grammar/languages/schema/compiler.h"

namespace nibble::grammar {
namespace {

constexpr uint32_t kMaxNested{3};    // levels of arrays within arrays
constexpr size_t kMaxListed{1'000};  // maximum number of arrays, items or integers in a list

// Returns the smallest (`is_min`) or largest integer within the bound; 2^60 or -2^60 if it has more than 15
// digits.
int64_t integer_of(const Bound& bound, bool is_min) {
  Decimal value = is_min ? ceil(bound.value) : floor(bound.value);
  if (bound.is_exclusive && bound.value.is_integer()) value = next_integer(value, is_min);
  constexpr size_t kMaxDigits{15};
  const int64_t size = value.integer.size() <= kMaxDigits ? std::stoll(value.integer) : int64_t{1} << 60;
  return value.is_negative ? -size : size;
}

}  // namespace

NodeId SchemaCompiler::different_items(const Branch& branch, const ArrayFacts& arrays) {
  if (arrays.first.empty() && arrays.num_needed == 0)
    if (const auto values = few_values(*arrays.rest, kMaxDifferent, kMaxNested)) {
      std::vector<std::string> texts;
      for (const Json& value : *values) texts.push_back(value.dump());
      return builder_.json_array_of_different(std::move(texts), arrays.min, arrays.max);
    }
  const auto values = few_arrays(arrays, kMaxNested);
  if (!values)
    document_.refuse(*arrays.unique, "uniqueItems",
                     fmt::format("it is supported only if the items have at most {} values, such as those of "
                                 "an enum; leave it out, or set maxItems to 1",
                                 kMaxDifferent));
  std::vector<std::string> texts;
  for (const Json& value : *values)
    if (may_hold(value, branch.terms)) texts.push_back(value.dump());
  return builder_.one_of(std::move(texts));
}

// Returns all values that satisfy the assertions, each once; nullopt if there are more than `max`.
std::optional<std::vector<Json>> SchemaCompiler::few_values(const Terms& terms, size_t max, uint32_t depth) {
  std::vector<Json> found;
  std::set<nlohmann::json> seen;
  for (const Branch& branch : branches_.of(terms)) {
    const auto values = values_to_filter(branch, depth);
    if (!values) return std::nullopt;
    for (const Json& value : *values) {
      builder_.expressions().fuel().spend(2);
      if (may_hold(value, branch.terms) && seen.insert(nlohmann::json(value)).second) found.push_back(value);
      if (found.size() > max) return std::nullopt;
    }
  }
  return found;
}

// Returns all values of the branch and possibly others, to be filtered; nullopt if they are too many.
std::optional<std::vector<Json>> SchemaCompiler::values_to_filter(const Branch& branch, uint32_t depth) {
  const Facts facts = facts_of(branch, document_, warnings_);
  std::vector<Json> values;
  if (facts.values) {
    for (const Json* value : listed_values(branch, facts)) values.push_back(*value);
    return values;
  }
  if (facts.types & (kFractionType | kStringType | kObjectType)) return std::nullopt;
  if (facts.types & kNullType) values.push_back(nullptr);
  if (facts.types & kBooleanType) values.insert(values.end(), {false, true});
  if (facts.types & kIntegerType) {
    const NumberFacts& numbers = facts.numbers;
    if (!numbers.min || !numbers.max) return std::nullopt;
    const int64_t first = integer_of(*numbers.min, true), last = integer_of(*numbers.max, false);
    if (last - first >= static_cast<int64_t>(kMaxListed)) return std::nullopt;
    for (int64_t value = first; value <= last; ++value) values.push_back(value);
  }
  if (facts.types & kArrayType) {
    const auto arrays = few_arrays(facts.arrays, depth);
    if (!arrays) return std::nullopt;
    values.insert(values.end(), arrays->begin(), arrays->end());
  }
  return values;
}

// Returns all arrays that meet the requirements, and possibly others; nullopt if too many or nested too deep.
std::optional<std::vector<Json>> SchemaCompiler::few_arrays(const ArrayFacts& arrays, uint32_t depth) {
  constexpr uint32_t kMaxLength{16};
  const uint32_t most = arrays.most();
  if (depth == 0 || most > kMaxLength) return std::nullopt;
  std::vector<Json> found, longest{Json::array()};
  for (uint32_t num = 0;; ++num) {
    if (num >= arrays.min) found.insert(found.end(), longest.begin(), longest.end());
    if (num >= most || longest.empty()) return found;
    const auto items =
        few_values(num < arrays.first.size() ? arrays.first[num] : *arrays.rest, kMaxListed, depth - 1);
    if (!items) return std::nullopt;
    std::vector<Json> longer;
    for (const Json& array : longest)
      for (const Json& item : *items) {
        builder_.expressions().fuel().spend(1 + array.size());
        const auto is_item = [&](const Json& other) { return is_same_value(other, item); };
        if (arrays.unique != nullptr && std::ranges::any_of(array, is_item)) continue;
        longer.push_back(array);
        longer.back().push_back(item);
        if (found.size() + longer.size() > kMaxListed) return std::nullopt;
      }
    longest = std::move(longer);
  }
}

}  // namespace nibble::grammar
