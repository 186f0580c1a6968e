#include "cli/profile/compare.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <sstream>
#include <vector>

#include "cli/measure/record_member.h"
#include "core/errors/error.h"
#include "core/files/mapped_file.h"

namespace nibble::cli {
namespace {

constexpr const char* kProfileCompareFooter{R"(
Measures nothing. A and B are files of 'nibble profile --json'; of a file with several profiles the last one counts. The first
table has the parts of a step; "within the spread" marks a difference below two standard deviations of the repetitions. The second
table has the kernels, the largest difference first. Profiles of different steps (model, tokens, depth, sequences) are refused;
other differences are listed.

A profile of another engine is a JSON object with the times of its kernels in microseconds per step, added up by part:
  {"model": "gpt-oss-120b", "engine": "vLLM", "num_tokens": 1, "depth": 4096, "num_sequences": 1,
   "parts": [{"part": "dense", "us": 2150}, {"part": "experts", "us": 4980}]}
docs/benchmarking.md says which kernels of vLLM, SGLang and llama.cpp belong to which part.

Example:
  nibble profile synthetic:gpt-oss-120b -d 4096 --json > bf16.json
  nibble profile synthetic:gpt-oss-120b -d 4096 --json --mxfp4-layers all > mxfp4.json
  nibble profile compare bf16.json mxfp4.json)"};

constexpr RecordMember kStepMembers[]{{"the number of new tokens", "/num_tokens"},
                                      {"the depth", "/depth"},
                                      {"the number of sequences", "/num_sequences"},
                                      {"the number of drafted tokens", "/num_drafts"}};
constexpr RecordMember kProfileCircumstances[]{
    {"engine", "/engine"},   {"commit", "/nibble/commit"},       {"build", "/nibble/build"},
    {"CPU", "/machine/cpu"}, {"GPU", "/machine/device/name"},    {"backend", "/backend"},
    {"threads", "/threads"}, {"repetitions", "/num_repetitions"}};

void check_same_step(const std::string& name_a, const Json& a, const std::string& name_b, const Json& b) {
  const auto check = [&](const char* what, const Json& of_a, const Json& of_b) {
    if (!of_a.is_null() && !of_b.is_null() && of_a != of_b)
      throw InputError("{} and {} are not comparable: {} is {} and {}", name_a, name_b, what, text_of(of_a),
                       text_of(of_b));
  };
  if (a.contains("model") && b.contains("model")) check("the model", model_of(a), model_of(b));
  for (const auto& [name, pointer] : kStepMembers) check(name, value_at(a, pointer), value_at(b, pointer));
}

struct ComparedTime {
  std::string part, kernel;    // `kernel`: empty in the table of parts
  std::optional<double> a, b;  // microseconds
  std::optional<double> deviation_a, deviation_b;

  double difference() const { return b.value_or(0) - a.value_or(0); }
};

std::optional<double> number_at(const Json& object, const char* key) {
  return object.contains(key) && object[key].is_number() ? std::optional(object[key].get<double>())
                                                         : std::nullopt;
}

// Returns the rows of A in order, then the rows that only B has. `list`: JSON pointer to the list of rows.
std::vector<ComparedTime> rows_of(const Json& a, const Json& b, const char* list) {
  std::vector<ComparedTime> rows;
  const auto row_of = [&](const Json& of) -> ComparedTime& {
    const std::string part = of.value("part", ""), kernel = of.value("kernel", "");
    const auto found = std::ranges::find_if(
        rows, [&](const ComparedTime& row) { return row.part == part && row.kernel == kernel; });
    return found != rows.end() ? *found : rows.emplace_back(ComparedTime{part, kernel, {}, {}, {}, {}});
  };
  for (const Json& of : value_at(a, list)) {
    ComparedTime& row = row_of(of);
    row.a = number_at(of, "us");
    row.deviation_a = number_at(of, "us_standard_deviation");
  }
  for (const Json& of : value_at(b, list)) {
    ComparedTime& row = row_of(of);
    row.b = number_at(of, "us");
    row.deviation_b = number_at(of, "us_standard_deviation");
  }
  return rows;
}

ComparedTime sum_of(const std::vector<ComparedTime>& rows) {
  ComparedTime sum{"sum", "", 0.0, 0.0, {}, {}};
  for (const ComparedTime& row : rows) {
    *sum.a += row.a.value_or(0);
    *sum.b += row.b.value_or(0);
  }
  return sum;
}

std::string verdict(const ComparedTime& row) {
  if (!row.a) return "only in B";
  if (!row.b) return "only in A";
  const bool has_spread = row.deviation_a && row.deviation_b;
  return has_spread && std::abs(row.difference()) <= 2 * std::hypot(*row.deviation_a, *row.deviation_b)
             ? "within the spread"
             : "";
}

std::string line(const std::string& name, const ComparedTime& row) {
  const auto cell = [](const std::optional<double>& us) { return us ? fmt::format("{:.1f}", *us) : "-"; };
  return fmt::format("| {:<20} | {:>10} | {:>10} | {:>+9.1f} | {:>6} | {:<17} |\n", name, cell(row.a),
                     cell(row.b), row.difference(),
                     row.a.value_or(0) > 0 && row.b ? fmt::format("{:.3f}", *row.b / *row.a) : "-",
                     verdict(row));
}

std::string head(const char* what) {
  return fmt::format("| {:<20} | {:>10} | {:>10} | {:>9} | {:>6} | {:<17} |\n", what, "A, us", "B, us",
                     "B - A, us", "B / A", "") +
         fmt::format("| {:-<20} | {:->9}: | {:->9}: | {:->8}: | {:->5}: | {:-<17} |\n", "", "", "", "", "",
                     "");
}

std::string table_of_parts(const Json& a, const Json& b) {
  const std::vector<ComparedTime> rows = rows_of(a, b, "/parts");
  std::string table = head("part");
  for (const ComparedTime& row : rows) table += line(row.part, row);
  table += line("sum", sum_of(rows));
  const Json step_a = value_at(a, "/step_us"), step_b = value_at(b, "/step_us");
  if (step_a.is_number() && step_b.is_number())
    table += line("unrecorded step",
                  {"", "", step_a.get<double>(), step_b.get<double>(),
                   number_at(a, "step_us_standard_deviation"), number_at(b, "step_us_standard_deviation")});
  return table;
}

std::string table_of_kernels(const Json& a, const Json& b) {
  std::vector<ComparedTime> rows = rows_of(a, b, "/kernel_times");
  if (rows.empty()) return "";
  std::ranges::stable_sort(rows, [](const ComparedTime& one, const ComparedTime& other) {
    return std::abs(one.difference()) > std::abs(other.difference());
  });
  std::string table = '\n' + head("kernel");
  for (const ComparedTime& row : rows)
    table += line(row.part == "draft head" ? "draft: " + row.kernel : row.kernel, row);
  return table;
}

// Lists operations whose formats or kernels differ, one line each.
std::string formats_that_differ(const Json& a, const Json& b) {
  const auto rows_text = [](const Json& profile, const std::string& operation) {
    std::string text;
    for (const Json& row : value_at(profile, "/kernels"))
      if (row.value("operation", "") == operation)
        text += fmt::format("{}{} ({}, activations in {})", text.empty() ? "" : "; ", row.value("kernel", ""),
                            row.value("weights", ""), row.value("activations", ""));
    return text.empty() ? "not recorded" : text;
  };
  std::string lines;
  std::vector<std::string> seen;
  for (const Json& row : value_at(a, "/kernels")) {
    const std::string operation = row.value("operation", "");
    if (std::ranges::find(seen, operation) != seen.end()) continue;
    seen.push_back(operation);
    const std::string of_a = rows_text(a, operation), of_b = rows_text(b, operation);
    if (of_a != of_b) lines += fmt::format("- {}: {} in A, {} in B\n", operation, of_a, of_b);
  }
  return lines;
}

std::string other_differences(const Json& a, const Json& b) {
  std::string lines;
  for (const auto& [name, pointer] : kProfileCircumstances) {
    const Json of_a = value_at(a, pointer), of_b = value_at(b, pointer);
    if (of_a != of_b) lines += fmt::format("- {}: {} in A, {} in B\n", name, text_of(of_a), text_of(of_b));
  }
  return lines + formats_that_differ(a, b);
}

bool has_time(const Json& row) {
  const Json part = value_at(row, "/part"), us = value_at(row, "/us");
  return part.is_string() && us.is_number() && us.get<double>() >= 0;
}

bool is_profile(const Json& json) {
  const Json parts = value_at(json, "/parts"), kernels = value_at(json, "/kernel_times");
  return parts.is_array() && !parts.empty() && std::ranges::all_of(parts, has_time) &&
         std::ranges::all_of(kernels, has_time);
}

}  // namespace

Json read_profile_file(const std::filesystem::path& path) {
  std::istringstream file(read_text_file(path));
  Json last;
  while (!(file >> std::ws).eof()) {
    try {
      file >> last;
    } catch (const Json::parse_error&) {
      throw InputError("{}: not JSON of 'nibble profile --json'", path.string());
    }
  }
  if (!is_profile(last))
    throw InputError("{}: the last record is not a profile: it needs \"parts\" with \"part\" and \"us\"",
                     path.string());
  return last;
}

std::string compare_profiles(const std::string& name_a, const Json& a, const std::string& name_b,
                             const Json& b) {
  check_same_step(name_a, a, name_b, b);
  return fmt::format("{}{}\n- A is {}, B is {}\n{}", table_of_parts(a, b), table_of_kernels(a, b), name_a,
                     name_b, other_differences(a, b));
}

Action define_profile_compare(CLI::App& command, Settings&) {
  struct Files {
    std::string a, b;
  };
  const auto files = std::make_shared<Files>();
  command.add_option("A", files->a, "file of 'nibble profile --json'")->required()->type_name("");
  command.add_option("B", files->b, "file that is compared with A")->required()->type_name("");
  command.footer(kProfileCompareFooter);
  return [files] {
    const Json a = read_profile_file(files->a), b = read_profile_file(files->b);
    fmt::print("{}", compare_profiles(files->a, a, files->b, b));
    return kDone;
  };
}

}  // namespace nibble::cli
