#include "model/draft_head/draft_head.h"

#include <cstdint>
#include <cstring>
#include <numeric>
#include <system_error>
#include <unordered_set>

#include "core/errors/error.h"
#include "core/files/mapped_file.h"
#include "formats/mxfp4.h"
#include "formats/open_container.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxConfigBytes{1 << 20};

// The tensors of a head's file; their names may begin with "model.". Refuses files with unused tensors.
class HeadFile {
 public:
  explicit HeadFile(const Container& container) : container_(container) {
    for (const char* prefix : {"", "model."})
      for (const char* layer : {"midlayer.", "layers.0."})
        if (container.find(fmt::format("{}{}self_attn.q_proj.weight", prefix, layer))) {
          prefix_ = prefix;
          layer_ = layer;
        }
    if (layer_.empty())
      throw InputError(
          "{}: not an EAGLE-3 head: it has neither 'midlayer.self_attn.q_proj.weight' nor "
          "'layers.0.self_attn.q_proj.weight'",
          file());
  }

  std::string in_layer(std::string_view name) const { return layer_ + std::string(name); }

  const Tensor* find(std::string_view name) {
    const Tensor* tensor = container_.find(fmt::format("{}{}", prefix_, name));
    if (!tensor) tensor = container_.find(name);  // lm_head and d2t have no "model." prefix
    if (tensor) used_.insert(tensor);
    return tensor;
  }
  const Tensor& need(std::string_view name, const Shape& shape) {
    const Tensor* tensor = find(name);
    if (!tensor)
      throw InputError("{}: tensor '{}' is missing ({} tensors are present)", file(), name,
                       container_.tensors.size());
    check(*tensor, shape);
    if (tensor->dtype != DType::kBf16 && tensor->dtype != DType::kF32)
      throw InputError("{}: tensor '{}' is {}; expected BF16 or F32", file(), tensor->name, tensor->dtype);
    return *tensor;
  }
  void check(const Tensor& tensor, const Shape& shape) const {
    if (tensor.shape != shape)
      throw InputError("{}: tensor '{}' is {}; config.json requires {}", file(), tensor.name, tensor.shape,
                       shape);
  }
  Matrix matrix(std::string_view name, int rows, int cols) {
    const Tensor& tensor = need(name, {static_cast<uint64_t>(rows), static_cast<uint64_t>(cols)});
    return {rows, cols, Elements{.format = format_of(tensor), .data = tensor.data.data()}};
  }
  Vector vector(std::string_view name, int count) {
    const Tensor& tensor = need(name, {static_cast<uint64_t>(count)});
    return {tensor.data.data(), format_of(tensor), count};
  }
  void refuse_unused() const {
    for (const Tensor& tensor : container_.tensors)
      if (!used_.contains(&tensor))
        throw InputError("{}: unexpected tensor '{}': the head that config.json describes does not use it",
                         file(), tensor.name);
  }
  std::string file() const {
    return container_.files.empty() ? std::string("the head") : container_.files.front().string();
  }

 private:
  static Format format_of(const Tensor& tensor) {
    return tensor.dtype == DType::kF32 ? Format::kF32 : Format::kBf16;
  }

  const Container& container_;
  std::string prefix_, layer_;
  std::unordered_set<const Tensor*> used_;
};

// Returns the model's token id for each draft id i: i + d2t[i]. Checks that t2d, if present, marks each of
// these tokens.
std::vector<TokenId> read_tokens(HeadFile& file, const DraftHeadConfig& config) {
  std::vector<TokenId> tokens(static_cast<size_t>(config.draft_vocab));
  const Tensor* differences = file.find("d2t");
  if (!differences) {
    if (config.draft_vocab < config.vocab)
      throw InputError(
          "{}: tensor 'd2t' is missing: the head has {} of the model's {} tokens, and 'd2t' says which",
          file.file(), config.draft_vocab, config.vocab);
    std::iota(tokens.begin(), tokens.end(), 0);
  } else {
    file.check(*differences, {tokens.size()});
    if (differences->dtype != DType::kI64)
      throw InputError("{}: tensor 'd2t' is {}; expected I64", file.file(), differences->dtype);
    for (size_t i = 0; i < tokens.size(); ++i) {
      int64_t difference{0};
      std::memcpy(&difference, differences->data.data() + i * sizeof(difference), sizeof(difference));
      if (difference < -static_cast<int64_t>(i) || difference >= config.vocab - static_cast<int64_t>(i))
        throw InputError("{}: 'd2t' maps draft id {} outside the model's {} tokens", file.file(), i,
                         config.vocab);
      tokens[i] = static_cast<TokenId>(static_cast<int64_t>(i) + difference);
    }
  }
  if (const Tensor* has_draft = file.find("t2d")) {
    file.check(*has_draft, {static_cast<uint64_t>(config.vocab)});
    if (has_draft->dtype != DType::kBool)
      throw InputError("{}: tensor 't2d' is {}; expected BOOL", file.file(), has_draft->dtype);
    for (const TokenId token : tokens)
      if (has_draft->data[static_cast<size_t>(token)] == std::byte{0})
        throw InputError("{}: 'd2t' and 't2d' disagree about token {}", file.file(), token);
  }
  return tokens;
}

}  // namespace

DraftHeadBytes bytes_of(const DraftHeadConfig& head, Format format) {
  const auto bytes = [format](int rows, int cols) {
    return matrix_bytes(static_cast<size_t>(cols) % kMxfp4BlockSize == 0 ? format : Format::kBf16,
                        static_cast<size_t>(rows), static_cast<size_t>(cols));
  };
  const int q_width = head.num_heads * head.head_dim, kv_width = head.num_kv_heads * head.head_dim;
  return {.fc = bytes(head.hidden, static_cast<int>(DraftHeadConfig::kNumTaps) * head.hidden),
          .k_and_v = bytes(2 * kv_width, 2 * head.hidden),
          .draft = bytes(q_width + 2 * kv_width, 2 * head.hidden) + bytes(head.hidden, q_width) +
                   2 * bytes(head.intermediate, head.hidden) + bytes(head.hidden, head.intermediate) +
                   bytes(head.draft_vocab, head.hidden)};
}

DraftHead with_parts_of(const Weights& model, DraftHead head) {
  const auto take = [&](Matrix& matrix, const Matrix& models) {
    if (!matrix.is_gone()) return;
    if (models.is_gone())
      throw InputError(
          "{}: the head has no lm_head and needs the model's, which was quantised: leave lm_head out of "
          "--mxfp4-layers and --fp8-layers",
          head.source);
    matrix = models;
  };
  take(head.embedding, model.embedding);
  take(head.unembedding, model.unembedding);
  return head;
}

std::shared_ptr<const DraftHead> open_draft_head(const fs::path& folder, const Config& model) {
  const fs::path config_file = folder / "config.json";
  std::error_code error;
  if (!fs::exists(config_file, error))
    throw InputError("{}: not a draft head: no config.json in this folder", folder.string());
  auto head = std::make_shared<DraftHead>();
  head->source = folder.string();
  head->config =
      parse_draft_head_config(read_text_file(config_file, kMaxConfigBytes), config_file.string(), model);
  const DraftHeadConfig& config = head->config;
  const int hidden = config.hidden, q_width = config.num_heads * config.head_dim,
            kv_width = config.num_kv_heads * config.head_dim;

  const Container container = open_container_folder(folder);
  HeadFile file(container);
  const auto layer = [&](std::string_view name) { return file.in_layer(name); };
  const int num_features = static_cast<int>(DraftHeadConfig::kNumTaps) * hidden;
  if (config.norm_before_fc) head->features_norm = file.vector("input_norm.weight", num_features);
  head->fc = file.matrix("fc.weight", hidden, num_features);
  head->token_norm = file.vector(layer("input_layernorm.weight"), hidden);
  head->hidden_norm = file.vector(layer("hidden_norm.weight"), hidden);
  head->q = file.matrix(layer("self_attn.q_proj.weight"), q_width, 2 * hidden);
  head->k = file.matrix(layer("self_attn.k_proj.weight"), kv_width, 2 * hidden);
  head->v = file.matrix(layer("self_attn.v_proj.weight"), kv_width, 2 * hidden);
  head->o = file.matrix(layer("self_attn.o_proj.weight"), hidden, q_width);
  head->mlp_norm = file.vector(layer("post_attention_layernorm.weight"), hidden);
  head->gate = file.matrix(layer("mlp.gate_proj.weight"), config.intermediate, hidden);
  head->up = file.matrix(layer("mlp.up_proj.weight"), config.intermediate, hidden);
  head->down = file.matrix(layer("mlp.down_proj.weight"), hidden, config.intermediate);
  head->final_norm = file.vector("norm.weight", hidden);
  head->unembedding = {config.draft_vocab, hidden, {}};
  head->embedding = {config.vocab, hidden, {}};
  if (config.draft_vocab < config.vocab || file.find("lm_head.weight"))
    head->unembedding = file.matrix("lm_head.weight", config.draft_vocab, hidden);
  if (file.find("embed_tokens.weight"))
    head->embedding = file.matrix("embed_tokens.weight", config.vocab, hidden);
  head->tokens = read_tokens(file, config);
  file.refuse_unused();
  head->storage = container.storage;
  return head;
}

}  // namespace nibble
