// Finds the files of an adapter, and checks that its values are finite.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <system_error>
#include <utility>

#include "core/errors/check.h"
#include "core/errors/error.h"
#include "core/files/mapped_file.h"
#include "core/numbers/as_size.h"
#include "formats/open_container.h"
#include "model/adapter/adapter.h"
#include "model/adapter/gguf_adapter.h"
#include "model/adapter/peft_adapter.h"
#include "model/adapter/peft_config.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTensors{"adapter_model.safetensors"}, kConfig{"adapter_config.json"};

// In the order of AdaptedMatrix.
constexpr std::string_view kMatrixNames[] = {
    "embedding", "q", "k", "v", "o", "router", "experts' gate_up", "experts' down", "lm_head",
};

fs::path tensors_in(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / kTensors, error)) return folder / kTensors;
  if (error) throw InputError("{}: cannot be read: {}", (folder / kTensors).string(), error.message());
  const bool has_pickle = fs::exists(folder / "adapter_model.bin", error);
  throw InputError("{}: no {}{}", folder.string(), kTensors,
                   has_pickle ? ", only adapter_model.bin, a Python pickle, which nibble does not read: save "
                                "the adapter with safe_serialization=True"
                              : "; expected the folder of a PEFT adapter, or a GGUF file");
}

Adapter open_peft(const fs::path& path, const Config& config, FileAccess access) {
  constexpr size_t kMaxConfigBytes{1 << 20};
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  const fs::path tensors = is_folder ? tensors_in(path) : path;
  const fs::path json = fs::absolute(tensors).parent_path() / kConfig;
  if (!fs::exists(json, error))
    throw InputError("{}: no {} next to the tensors, which states alpha", path.string(), kConfig);
  const PeftConfig peft = parse_peft_config(read_text_file(json, kMaxConfigBytes), json);
  const auto container = std::make_shared<Container>(open_container(tensors, access));
  return {path.string(), read_peft_tensors(*container, peft, config), container, container->mapped};
}

Adapter open_gguf_lora(const fs::path& path, const Config& config, FileAccess access) {
  struct Opened {
    Gguf gguf;
    std::vector<Buffer> decoded;
  };
  const auto opened = std::make_shared<Opened>();
  opened->gguf = open_gguf(path, access);
  GgufUpdates found = read_gguf_adapter(opened->gguf, config);
  opened->decoded = std::move(found.decoded);
  return {path.string(), std::move(found.updates), opened, opened->gguf.mapped};
}

bool is_finite(const Factor& factor, size_t rows, size_t cols) {
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < cols; ++c)
      if (!std::isfinite(factor.at(r, c))) return false;
  return true;
}

void check_values(const Adapter& adapter, const Config& config) {
  for (const MatrixUpdate& part : adapter.updates) {
    const LowRankUpdate& update = part.update;
    const Extents whole = extents_of(part.matrix, config);
    const size_t rows = as_size(whole.rows / update.row_step), rank = as_size(update.rank);
    if (std::isfinite(update.scale) && is_finite(update.a, rank, as_size(whole.cols)) &&
        is_finite(update.b, rows, rank))
      continue;
    throw InputError("{}: the update of {} has values that are not finite numbers", adapter.source,
                     name_in(part.matrix, part.layer));
  }
}

// "8" or "4 to 16".
template <typename T>
std::string range_text(const std::vector<T>& values) {
  if (values.empty()) return "0";
  const auto [least, most] = std::ranges::minmax(values);
  return least == most
             ? fmt::format("{:.4g}", static_cast<double>(least))
             : fmt::format("{:.4g} to {:.4g}", static_cast<double>(least), static_cast<double>(most));
}

}  // namespace

std::string_view name(AdaptedMatrix matrix) { return kMatrixNames[static_cast<size_t>(matrix)]; }

std::string name_in(AdaptedMatrix matrix, int layer) {
  const bool is_of_layer = matrix != AdaptedMatrix::kEmbedding && matrix != AdaptedMatrix::kUnembedding;
  return is_of_layer ? fmt::format("{} of layer {}", name(matrix), layer) : std::string(name(matrix));
}

Adapter open_adapter(const fs::path& path, const Config& config, FileAccess access) {
  std::error_code error;
  if (!fs::exists(path, error))
    throw InputError("{}: {}", path.string(), error ? error.message() : "no such file or folder");
  const bool is_file = !fs::is_directory(path, error);
  Adapter adapter =
      is_file && is_gguf(path) ? open_gguf_lora(path, config, access) : open_peft(path, config, access);
  if (adapter.updates.empty()) throw InputError("{}: the adapter changes no matrix", path.string());
  check_values(adapter, config);
  return adapter;
}

std::string describe(const Adapter& adapter, float scale) {
  std::map<AdaptedMatrix, int> counts;
  std::vector<int> ranks;
  std::vector<float> scales;
  for (const MatrixUpdate& part : adapter.updates) {
    ++counts[part.matrix];
    ranks.push_back(part.update.rank);
    scales.push_back(part.update.scale * scale);
  }
  std::string text = fmt::format("rank {}, scale {}:", range_text(ranks), range_text(scales));
  std::string_view separator{" "};
  for (const auto& [matrix, count] : counts) {
    text += fmt::format("{}{} {}", separator, name(matrix), count);
    separator = ", ";
  }
  return text;
}

}  // namespace nibble
