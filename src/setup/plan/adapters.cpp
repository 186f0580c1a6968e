#include "setup/plan/adapters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "core/errors/error.h"
#include "core/program/log.h"
#include "core/text/json.h"
#include "core/threads/thread_pool.h"
#include "model/adapter/request_adapter.h"
#include "setup/model/model_stores.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

constexpr float kMostScale{1000};
constexpr std::string_view kMerged{"--lora"}, kModules{"--lora-modules"};

bool exists(const fs::path& path) {
  std::error_code no_such_file;
  return fs::exists(path, no_such_file);
}

AdapterSetup read_adapter(std::string_view flag, const std::string& text) {
  const size_t colon = text.rfind(':');
  if (exists(text) || colon == std::string::npos || colon == 0) return {text};
  float scale = 0;
  const char* end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data() + colon + 1, end, scale);
  if (error != std::errc{} || parsed != end) return {text};
  if (!(std::abs(scale) <= kMostScale))
    throw InputError("{} '{}': expected FILE:SCALE with a number from {} to {}", flag, text, -kMostScale,
                     kMostScale);
  return {text.substr(0, colon), scale};
}

fs::path find_adapter(std::string_view flag, const std::string& file) {
  std::error_code why;
  if (fs::exists(file, why)) return file;
  Tried tried{with_reason(file, why)};
  if (const auto path = find_in_hugging_face(file, tried)) return *path;
  throw InputError(
      "{} '{}': no such adapter: looked for {}. Expected the folder of a PEFT adapter "
      "(adapter_config.json, adapter_model.safetensors), a GGUF file, or OWNER/NAME in the Hugging Face "
      "cache; with :SCALE after it",
      flag, file, fmt::join(tried, " and "));
}

Adapter open(std::string_view flag, const std::string& file, const Model& model,
             const ResolvedSettings& setup) {
  if (!model.weights)
    throw InputError("{}: {} has random weights, to which no adapter belongs", flag, model.source.name);
  return open_adapter(find_adapter(flag, file), model.config, setup.places.access);
}

// Reads vLLM's {"name": "sql", "path": "FILE", "base_model_name": "gpt-oss-20b"}.
AdapterModule read_json_module(const std::string& text) {
  AdapterModule module;
  try {
    const auto json = nlohmann::json::parse(text);
    for (const auto& [key, value] : json.items()) {
      if (key == "name")
        module.name = value.get<std::string>();
      else if (key == "path")
        module.adapter = read_adapter(kModules, value.get<std::string>());
      else if (key == "base_model_name")
        module.base = value.is_null() ? "" : value.get<std::string>();
      else
        throw InputError("{} '{}': expected name, path and base_model_name, not {}", kModules, text, key);
    }
  } catch (const nlohmann::json::exception&) {
    throw InputError("{} '{}': expected JSON with the texts name and path", kModules, text);
  }
  return module;
}

AdapterModule read_module(const std::string& text) {
  if (text.starts_with('{')) return read_json_module(text);
  const size_t equals = text.find('=');
  if (equals == std::string::npos)
    throw InputError("{} '{}': expected NAME=FILE, or JSON with name and path", kModules, text);
  return {text.substr(0, equals), read_adapter(kModules, text.substr(equals + 1)), {}};
}

// Whether an adapter may have this name. It has no colon, because requests may write MODEL:ADAPTER. It is not
// "latest", because clients of Ollama's API write MODEL:latest for the model itself.
bool is_name(std::string_view name) {
  const auto may_be_in_names = [](char c) { return c != ':' && std::isgraph(static_cast<unsigned char>(c)); };
  return !name.empty() && name != "latest" && std::ranges::all_of(name, may_be_in_names);
}

}  // namespace

std::vector<AdapterSetup> read_adapters(std::span<const std::string> texts) {
  std::vector<AdapterSetup> adapters;
  for (const std::string& text : texts) adapters.push_back(read_adapter(kMerged, text));
  return adapters;
}

std::vector<ScaledAdapter> open_adapters(Model& model, const ResolvedSettings& setup) {
  std::vector<ScaledAdapter> opened;
  for (const auto& [file, scale] : setup.adapters) {
    Adapter adapter = open(kMerged, file, model, setup);
    model.adapters.push_back(fmt::format("{}: {}", file, describe(adapter, scale)));
    log::info("adapter merged: {}", model.adapters.back());
    std::ranges::copy_if(adapter.files, std::back_inserter(model.adapter_files),
                         [](const auto& part) { return !part->is_copy(); });
    opened.push_back({std::make_shared<const Adapter>(std::move(adapter)), scale});
  }
  return opened;
}

void merge_into_dense(Model& model, std::span<const ScaledAdapter> adapters, const ResolvedSettings& setup) {
  if (adapters.empty()) return;
  ThreadPool pool(setup.threads.value_or(0));
  MergedWeights merged =
      merge_into_dense(*model.weights, adapters, pool,
                       setup.show_progress("merging adapters into " + model.source.name, "matrices"));
  model.weights = std::move(merged.weights);
  model.merged_bytes = merged.bytes;
}

std::vector<AdapterModule> read_adapter_modules(std::span<const std::string> texts,
                                                std::span<const std::string> taken) {
  std::vector<AdapterModule> modules;
  for (const std::string& text : texts) {
    AdapterModule module = read_module(text);
    if (!is_name(module.name) || module.adapter.file.empty())
      throw InputError("{} '{}': expected NAME=FILE, where NAME has no spaces and colons and is not 'latest'",
                       kModules, text);
    if (std::ranges::find(taken, module.name) != taken.end())
      throw InputError("{} '{}': the model itself is called {}", kModules, text, module.name);
    if (std::ranges::find(modules, module.name, &AdapterModule::name) != modules.end())
      throw InputError("{} '{}': another adapter is called {}", kModules, text, module.name);
    modules.push_back(std::move(module));
  }
  return modules;
}

void check_takes_adapters(std::span<const AdapterModule> modules, const ResolvedSettings& setup) {
  if (modules.empty()) return;
  if (const std::string why_not = setup.backend->making.why_no_adapters(setup.own); !why_not.empty())
    throw InputError("{}: {}: give the model one GPU, or merge one adapter with --lora", kModules, why_not);
  if (setup.nodes)
    throw InputError("{}: not with --nodes: run the model on one machine, or merge one adapter with --lora",
                     kModules);
}

void open_adapter_modules(std::span<const AdapterModule> modules, Model& model, ResolvedSettings& setup) {
  if (modules.empty()) return;
  RequestAdapters adapters;
  for (const auto& [name, file_and_scale, _] : modules) {
    const auto& [file, scale] = file_and_scale;
    const Adapter adapter = open(kModules, file, model, setup);
    adapters.push_back(keep_apart(adapter, scale, model.config));
    model.request_adapters.push_back(fmt::format("{}: {}: {}", name, file, describe(adapter, scale)));
    log::info("adapter of requests: {}", model.request_adapters.back());
  }
  setup.options.adapters = std::make_shared<const RequestAdapters>(std::move(adapters));
}

}  // namespace nibble
