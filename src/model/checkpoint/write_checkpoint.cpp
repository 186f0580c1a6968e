#include "model/checkpoint/write_checkpoint.h"

#include <fmt/format.h>

#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "core/errors/error.h"
#include "core/files/new_file.h"
#include "core/text/json.h"
#include "formats/safetensors_writer.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxShardBytes{5'000'000'000};

// Returns the specs of the tensors to write. A tensor that BF16 can't hold exactly becomes F32, with twice
// the bytes.
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

// A new or empty folder. Without keep() the destructor deletes the added files, and the folder if it was new.
class NewFolder {
 public:
  explicit NewFolder(const fs::path& folder) : folder_(folder) {
    std::error_code error;
    is_made_ = fs::create_directories(folder, error);
    if (error) throw InputError("{}: can't create the folder: {}", folder.string(), error.message());
    const bool is_empty = fs::is_empty(folder, error);
    if (error || !is_empty) throw InputError("{}: not an empty folder; choose a new one", folder.string());
  }
  ~NewFolder() {
    if (is_kept_) return;
    std::error_code ignored;  // not reported, because an earlier error is reported already
    for (const std::string& name : names_) fs::remove(folder_ / name, ignored);
    if (is_made_) fs::remove(folder_, ignored);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  fs::path add(const std::string& name) {
    names_.push_back(name);
    return folder_ / name;
  }
  void add_text(const std::string& name, std::string_view text) {
    NewFile file(add(name));
    file.write(text);
    file.finish();
  }
  void keep() { is_kept_ = true; }

 private:
  fs::path folder_;
  std::vector<std::string> names_;
  bool is_made_{false}, is_kept_{false};
};

}  // namespace

// Writes config.json and the index last: a folder left incomplete by a power cut lacks both and is refused.
void write_checkpoint(const TensorSource& source, const fs::path& path, const std::vector<TextFile>& others,
                      const ReportProgress& report) {
  NewFolder folder(path);
  std::vector<TensorSpec> specs = specs_to_write(source);
  const size_t total = total_bytes(specs);
  const std::vector<std::vector<TensorSpec>> shards = into_shards(std::move(specs));
  Meter meter(total, report);
  Json weight_map;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string file = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    write_shard(source, shards[i], folder.add(file), meter);
    for (const TensorSpec& spec : shards[i]) weight_map[spec.name] = file;
  }
  for (const TextFile& other : others) folder.add_text(other.name, other.text);
  const Json index{{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}};
  folder.add_text("model.safetensors.index.json", index.dump(2) + "\n");
  folder.add_text("config.json", to_json(source.config));
  folder.keep();
}

}  // namespace nibble
