#include "model/write_checkpoint.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "formats/safetensors_writer.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxShardBytes{5'000'000'000};

// As they are written: a dtype that is not the released one is one of twice the bytes.
std::vector<TensorSpec> specs_to_write(const TensorSource& source) {
  std::vector<TensorSpec> specs = tensor_specs(source.config);
  Buffer room;
  for (TensorSpec& spec : specs) {
    spec.dtype = exact_dtype(source, spec, room);
    spec.num_bytes = *num_elements(spec.shape) * static_cast<size_t>(num_bits(spec.dtype)) / 8;
  }
  return specs;
}

std::vector<std::vector<TensorSpec>> into_shards(std::vector<TensorSpec> specs) {
  std::vector<std::vector<TensorSpec>> shards;
  size_t shard_bytes{0};
  for (TensorSpec& spec : specs) {
    if (shards.empty() || shard_bytes + spec.num_bytes > kMaxShardBytes) {
      shards.emplace_back();
      shard_bytes = 0;
    }
    shard_bytes += spec.num_bytes;
    shards.back().push_back(std::move(spec));
  }
  return shards;
}

void write_shard(const TensorSource& source, const std::vector<TensorSpec>& specs, const fs::path& file,
                 Meter& meter) {
  std::vector<SafetensorsEntry> entries;
  std::unordered_map<std::string_view, const TensorSpec*> by_name;
  for (const TensorSpec& spec : specs) {
    entries.push_back({spec.name, spec.dtype, spec.shape});
    by_name[spec.name] = &spec;
  }
  SafetensorsWriter writer(file, std::move(entries));
  Buffer room, narrow;
  for (const SafetensorsEntry& entry : writer.entries()) {
    const TensorSpec& spec = *by_name.at(entry.name);
    writer.append({elements_as(spec.dtype, source, spec, room, narrow), spec.num_bytes});
    meter.add(spec.num_bytes);
  }
  writer.finish();
}

void write_text(const fs::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  out << text << std::flush;
  if (!out) throw InputError("{}: cannot be written", file.string());
}

void make_empty_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw InputError("{}: cannot be made a folder: {}", folder.string(), error.message());
  const bool is_empty = fs::is_empty(folder, error);
  if (error || !is_empty) throw InputError("{}: is not an empty folder; give a new one", folder.string());
}

}  // namespace

// config.json and the index come last: a folder whose making was broken off has neither, and is refused.
void write_checkpoint(const TensorSource& source, const fs::path& folder, const std::vector<TextFile>& others,
                      const ReportProgress& report) {
  make_empty_folder(folder);
  std::vector<TensorSpec> specs = specs_to_write(source);
  const size_t total = total_bytes(specs);
  const std::vector<std::vector<TensorSpec>> shards = into_shards(std::move(specs));
  Meter meter(total, report);
  nlohmann::ordered_json weight_map;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string file = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    write_shard(source, shards[i], folder / file, meter);
    for (const TensorSpec& spec : shards[i]) weight_map[spec.name] = file;
  }
  for (const TextFile& other : others) write_text(folder / other.name, other.text);
  const nlohmann::ordered_json index{{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}};
  write_text(folder / "model.safetensors.index.json", index.dump(2) + "\n");
  write_text(folder / "config.json", to_json(source.config));
}

}  // namespace nibble
