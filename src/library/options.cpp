#include "library/options.h"

#include <algorithm>
#include <initializer_list>

#include "core/errors/error.h"
#include "library/status.h"

namespace nibble::library {
namespace {

bool is_one_of(SettingGroup group, std::initializer_list<SettingGroup> groups) {
  return std::ranges::find(groups, group) != groups.end();
}

bool is_of_session(const Setting& setting) {
  using enum SettingGroup;
  return is_one_of(setting.group, {kInstruction, kDate, kSampling, kAnswer});
}

bool is_of_library(const Setting& setting) {
  using enum SettingGroup;
  return !is_one_of(setting.group, {kDetail, kNodes, kChat});
}

void apply(const Setting& setting, const std::string& value, Settings& settings) {
  set(settings, setting, value, setting.name);
}

}  // namespace

const Setting& find_option(std::string_view name) {
  for (const Setting& setting : setting_table())
    if (setting.name == name && is_of_library(setting)) return setting;
  throw InputError(
      "there is no option '{}': options are the flags of nibble serve and nibble run without dashes, such as "
      "context and temperature",
      name);
}

const Setting& find_session_option(std::string_view name) {
  const Setting& setting = find_option(name);
  if (!is_of_session(setting))
    throw InputError("the option '{}' belongs to the model: give it to nibble_model_open()", name);
  return setting;
}

void apply_to_model(const nibble_options* options, Settings& settings) {
  if (!options) return;
  for (const auto& [setting, value] : options->given) apply(*setting, value, settings);
}

void apply_to_session(const nibble_options* options, Settings& settings) {
  if (!options) return;
  for (const auto& [setting, value] : options->given)
    apply(find_session_option(setting->name), value, settings);
}

}  // namespace nibble::library

using namespace nibble::library;

nibble_status nibble_options_create(nibble_options** options) {
  return guarded([&] {
    need(options, "options");
    *options = new nibble_options();
  });
}

void nibble_options_free(nibble_options* options) { delete options; }

nibble_status nibble_options_set(nibble_options* options, const char* name, const char* value) {
  return guarded([&] {
    need(options, "options");
    const nibble::Setting& setting = find_option(need_text(name, "name"));
    std::string text(need_text(value, "value"));
    nibble::Settings checked;
    apply(setting, text, checked);
    options->given.emplace_back(&setting, std::move(text));
  });
}

nibble_status nibble_options_set_progress(nibble_options* options, nibble_progress progress, void* data) {
  return guarded([&] {
    need(options, "options");
    options->progress = progress;
    options->progress_data = data;
  });
}
