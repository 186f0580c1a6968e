#include "setup/machine/tuning.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iterator>

#include "core/errors/error.h"
#include "core/files/mapped_file.h"
#include "core/files/new_file.h"
#include "core/program/log.h"
#include "core/threads/thread_pool.h"
#include "setup/machine/machine.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

struct TunedField {
  const char* name;
  int Tuning::*of_all;
  int cpu::CpuTuning::*of_cpu;  // the field of Tuning::cpu; used if of_all is null
  int least, most, multiple_of;

  int get(const Tuning& tuning) const { return of_all ? tuning.*of_all : tuning.cpu.*of_cpu; }
  void put(Tuning& tuning, int value) const { (of_all ? tuning.*of_all : tuning.cpu.*of_cpu) = value; }
};
constexpr TunedField kFields[]{
    {"threads", &Tuning::num_threads, nullptr, 0, 1024, 1},
    {"panel_rows", nullptr, &cpu::CpuTuning::panel_rows, cpu::kMinPanelRows, cpu::kMaxPanelRows,
     cpu::kMinPanelRows},
    {"large_panel_rows", nullptr, &cpu::CpuTuning::large_panel_rows, cpu::kMinPanelRows, cpu::kMaxPanelRows,
     cpu::kMinPanelRows},
    {"tile_from_tokens", nullptr, &cpu::CpuTuning::tile_from_tokens, 0, 1 << 20, 1},
};

Json read_file(const fs::path& path) {
  Json json = Json::parse(read_text_file(path), nullptr, false);
  if (!json.is_object())
    throw InputError("{}: not a file of nibble tune: delete it, or use --tuning off", path.string());
  return json;
}

constexpr const char *kBuild{"nibble"}, *kModels{"models"};  // members of a machine's entry

std::string build_of(const Json& entry) {
  const auto build = entry.is_object() ? entry.find(kBuild) : entry.end();
  return entry.is_object() && build != entry.end() && build->is_string() ? build->get<std::string>()
                                                                         : "another version of nibble";
}

Json models_of(const Json& entry) {
  const auto models = entry.find(kModels);
  return models != entry.end() && models->is_object() ? *models : Json::object();
}

constexpr const char* kSteps{
    "steps"};  // member of a GPU's settings: a list of [from, to, attention, experts]

// Checks only that the numbers are in range. Whether the kernels that they choose fit each other is checked
// when a model is loaded (backend/cuda/plan.cpp).
std::vector<TunedSteps> steps_from_json(const Json& json, const std::string& where) {
  std::vector<TunedSteps> all;
  const auto is_count = [](const Json& number) {
    return number.is_number_unsigned() && number.get<uint64_t>() >= 1 &&
           number.get<uint64_t>() <= kMostTunedRows;
  };
  bool is_right = json.is_array();
  if (is_right)
    for (const Json& steps : json) {
      is_right = is_right && steps.is_array() && steps.size() == 4 && std::ranges::all_of(steps, is_count);
      if (is_right) all.push_back({steps[0], steps[1], steps[2], steps[3]});
    }
  if (!is_right)
    throw InputError(
        "{}: {} must be a list of [from, to, attention, experts], in numbers of rows: run nibble tune "
        "again, or use --tuning off",
        where, kSteps);
  return all;
}

Tuning from_json(const Json& json, const std::string& where) {
  Tuning tuning;
  if (json.is_object() && json.contains(kSteps)) {
    tuning.gpu_steps = steps_from_json(json[kSteps], where);
    return tuning;
  }
  for (const TunedField& field : kFields) {
    const auto found = json.is_object() ? json.find(field.name) : json.end();
    int64_t value{-1};
    if (json.is_object() && found != json.end() && found->is_number_integer()) value = found->get<int64_t>();
    if (value < field.least || value > field.most || value % field.multiple_of != 0)
      throw InputError(
          "{}: {} must be a whole number from {} to {}{}: run nibble tune again, or use --tuning off", where,
          field.name, field.least, field.most,
          field.multiple_of > 1 ? fmt::format(", a multiple of {}", field.multiple_of) : "");
    field.put(tuning, static_cast<int>(value));
  }
  return tuning;
}

}  // namespace

Json to_json(const Tuning& tuning) {
  Json json;
  if (tuning.gpu_steps) {
    json[kSteps] = Json::array();
    for (const auto& [from, to, attention, experts] : *tuning.gpu_steps)
      json[kSteps].push_back({from, to, attention, experts});
    return json;
  }
  for (const TunedField& field : kFields) json[field.name] = field.get(tuning);
  return json;
}

std::string machine_name() { return fmt::format("{}, {} cores", cpu_name(), num_usable_cores()); }

std::string machine_name(const DeviceFacts& gpu) {
  return fmt::format("{}, {} multiprocessors, driver {}", gpu.name, gpu.num_multiprocessors.value_or(0),
                     gpu.driver.value_or("unknown"));
}

fs::path tuning_path(const Settings& settings) {
  if (settings.tuning) return *settings.tuning == "off" ? fs::path() : fs::path(*settings.tuning);
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
    return fs::path(cache) / "nibble" / "tuning.json";
  if (const char* home = std::getenv("HOME"); home && *home)
    return fs::path(home) / ".cache" / "nibble" / "tuning.json";
  return {};
}

Tunings read_tunings(const Settings& settings, const TunedMachine& machine) {
  const fs::path path = tuning_path(settings);
  if (path.empty()) return {};
  if (std::error_code error; !fs::is_regular_file(path, error)) {
    if (settings.tuning) throw InputError("--tuning {}: no such file; nibble tune writes one", path.string());
    return {};
  }
  const Json json = read_file(path);
  const auto entry = json.find(machine.name);
  if (entry == json.end()) return {};
  if (const std::string build = build_of(*entry); build != machine.build) {
    log::warn("{}: ignored, because {} measured it and this is {}: run nibble tune again", path.string(),
              build, machine.build);
    return {};
  }
  Tunings tunings;
  const Json models = models_of(*entry);
  for (const auto& [model, settings_of_model] : models.items())
    tunings[model] =
        from_json(settings_of_model, fmt::format("{}: {}: {}", path.string(), machine.name, model));
  return tunings;
}

void prepare_tuning_file(const fs::path& path) {
  if (path.empty()) return;
  std::error_code unknown;
  if (fs::exists(path, unknown)) {
    if (!fs::is_regular_file(path, unknown))
      throw InputError("--tuning {}: cannot be written: not a regular file", path.string());
    read_file(path);  // the results of other machines and models stay in it
  }
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error && ::access(folder.c_str(), W_OK | X_OK) != 0) error = {errno, std::generic_category()};
  if (error)
    throw InputError("--tuning {}: cannot be written: {}: {}", path.string(), folder.string(),
                     error.message());
}

void write_tuning(const fs::path& path, const TunedMachine& machine, const std::string& model,
                  const Tuning& tuning) {
  std::error_code error;
  Json json = fs::is_regular_file(path, error) ? read_file(path) : Json::object();
  Json& entry = json[machine.name];
  Json models = build_of(entry) == machine.build ? models_of(entry) : Json::object();
  models[model] = to_json(tuning);
  entry = {{kBuild, machine.build}, {kModels, std::move(models)}};
  prepare_tuning_file(path);
  NewFile file(path);  // atomic: a program that starts now reads either the old file or the new one
  file.write(json.dump(2) + "\n");
  file.finish();
}

}  // namespace nibble
