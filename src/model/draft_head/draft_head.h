// A draft head in the style of EAGLE-3 (Li et al., arXiv 2503.01840): a one-layer network that predicts the
// next tokens from the outputs of three of the model's layers. reference/draft_head.h has its formulas. Heads
// for gpt-oss come in three formats: SpecForge's (lmsys), Model-Optimizer's (NVIDIA) and that of speculators
// (Red Hat). The formats differ in which norms the network has and in how layers are numbered. Unknown fields
// are refused: for months, engines that ignored such differences lost accepted drafts without an error.
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/rope.h"
#include "model/weights.h"

namespace nibble {

// Llama 3's RoPE scaling: frequencies that make few turns over the original context are divided by `factor`.
struct Llama3Rope {
  double factor{8}, low_turns{1}, high_turns{4};
  int original_context{8192};
  friend bool operator==(const Llama3Rope&, const Llama3Rope&) = default;
};

struct DraftHeadConfig {
  static constexpr size_t kNumTaps{3};

  int hidden{0};                      // H, as in the model
  int vocab{0};                       // V, as in the model
  int draft_vocab{0};                 // number of draft ids: tokens that the head can predict
  int intermediate{0};                // I: width of the head's MLP
  int num_heads{0}, num_kv_heads{0};  // Nq and Nkv of the head
  int head_dim{0};                    // D of the head
  std::array<int, kNumTaps> taps{};   // the layers of the model whose outputs the head reads, ascending
  float rms_eps{1e-5f};
  double rope_theta{10000};
  std::optional<Llama3Rope> llama3{};  // not set: plain RoPE
  bool norm_before_fc{false};          // the three outputs are normed together, as one vector, before fc
  bool norm_before_residual{false};    // the layer's residual is the normed features, not the raw ones
  bool norm_output{false};             // the next draft of a chain starts from the normed output

  friend bool operator==(const DraftHeadConfig&, const DraftHeadConfig&) = default;
};

// Parses a head's config.json in any of the three formats. Throws InputError that names file (`origin`),
// field, value and accepted values, also if the head was trained for another model than `model`.
DraftHeadConfig parse_draft_head_config(std::string_view json, const std::string& origin,
                                        const Config& model);

RopeFrequencies rope_frequencies(const DraftHeadConfig& config);

// Bytes that a head reads, by bytes_of(). Matrices have its `format`, or BF16 if rows are not whole blocks.
struct DraftHeadBytes {
  size_t fc{0}, k_and_v{0};  // once per step, for the keys and values of its rows
  size_t draft{0};           // for each draft: the layer, including k and v, and the unembedding

  size_t of_step(int num_drafts) const { return fc + k_and_v + static_cast<size_t>(num_drafts) * draft; }
};
DraftHeadBytes bytes_of(const DraftHeadConfig& config, Format format);

struct DraftHead {
  DraftHeadConfig config;
  Vector features_norm;  // [3 H]; empty without norm_before_fc
  Matrix fc;             // [H, 3 H]: maps the outputs of the three layers to one feature vector
  // [H]: norms of the token's embedding and of the features (later in a chain: of the previous output).
  Vector token_norm, hidden_norm;
  Matrix q, k, v;         // [heads D, 2 H]: input is the normed embedding, then the normed features
  Matrix o;               // [H, Nq D]
  Vector mlp_norm;        // [H]
  Matrix gate, up, down;  // [I, H], [I, H], [H, I]
  Vector final_norm;      // [H]
  // If the file lacks one of these two, it is empty here, and the model's is used.
  Matrix unembedding;  // [draft_vocab, H]
  Matrix embedding;    // [V, H]

  std::vector<TokenId> tokens;  // [draft_vocab]: the model's token id of each draft id
  std::string source;           // path of the file, for messages
  std::shared_ptr<const void> storage;
};

// Fills in matrices that `head` lacks from the model. Throws InputError if the model has freed them.
DraftHead with_parts_of(const Weights& model, DraftHead head);

// Opens a folder with config.json and model.safetensors. The file may lack the embedding and, if the head has
// the whole vocabulary, the unembedding. Throws InputError.
std::shared_ptr<const DraftHead> open_draft_head(const std::filesystem::path& folder, const Config& model);

}  // namespace nibble
