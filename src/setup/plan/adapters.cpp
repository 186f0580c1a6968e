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
#include "core/threads/thread_pool.h"
#include "setup/model/model_stores.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

constexpr float kMostScale{1000};

bool exists(const fs::path& path) {
  std::error_code no_such_file;
  return fs::exists(path, no_such_file);
}

AdapterSetup read_adapter(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (exists(text) || colon == std::string::npos || colon == 0) return {text};
  float scale = 0;
  const char* end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data() + colon + 1, end, scale);
  if (error != std::errc{} || parsed != end) return {text};
  if (!(std::abs(scale) <= kMostScale))
    throw InputError("--lora '{}': expected FILE:SCALE with a number from {} to {}", text, -kMostScale,
                     kMostScale);
  return {text.substr(0, colon), scale};
}

fs::path find_adapter(const std::string& file) {
  if (exists(file)) return file;
  Tried tried{file};
  if (const auto path = find_in_hugging_face(file, tried)) return *path;
  throw InputError(
      "--lora '{}': no such adapter: looked for {}. Expected the folder of a PEFT adapter "
      "(adapter_config.json, adapter_model.safetensors), a GGUF file, or OWNER/NAME in the Hugging Face "
      "cache; with :SCALE after it",
      file, fmt::join(tried, " and "));
}

}  // namespace

std::vector<AdapterSetup> read_adapters(std::span<const std::string> texts) {
  std::vector<AdapterSetup> adapters;
  for (const std::string& text : texts) adapters.push_back(read_adapter(text));
  return adapters;
}

std::vector<ScaledAdapter> open_adapters(Model& model, const ResolvedSettings& setup) {
  std::vector<ScaledAdapter> opened;
  for (const auto& [file, scale] : setup.adapters) {
    if (!model.weights)
      throw InputError("--lora: {} has random weights, to which no adapter belongs", model.source.name);
    Adapter adapter = open_adapter(find_adapter(file), model.config, setup.places.access);
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

}  // namespace nibble
