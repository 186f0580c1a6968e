// A draft head in the style of EAGLE-3 (Li et al., arXiv 2503.01840): a one-layer network that predicts the
// next tokens from the outputs of three of the model's layers. reference/draft_head.h has its formulas. Heads
// for gpt-oss come in three formats: SpecForge's (lmsys), Model-Optimizer's (NVIDIA) and that of speculators
// (Red Hat). The formats differ in which norms the network has and in how layers are numbered. Unknown fields
// are refused: a head that is run with a wrong norm or layer gives no error, only fewer accepted drafts.
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

// Llama 3's RoPE scaling: low frequencies (few turns over the original context) are divided by `factor`.
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
  std::array<int, kNumTaps> taps{};   // layers of the model whose outputs the head reads, ascending
  float rms_eps{1e-5f};
  double rope_theta{10000};
  std::optional<Llama3Rope> llama3{};  // not set: plain RoPE
  bool norm_before_fc{false};          // one norm over the three outputs together, before fc
  bool norm_before_residual{false};    // the layer's residual starts from the normed features
  bool norm_output{false};             // drafts of a chain start from the normed previous output

  friend bool operator==(const DraftHeadConfig&, const DraftHeadConfig&) = default;
};

// Parses a head's config.json in any of the three formats. Throws InputError that names file (`origin`),
// field, value and accepted values, also if the head was trained for another model than `model`.
DraftHeadConfig parse_draft_head_config(std::string_view json, const std::string& origin,
                                        const Config& model);

RopeFrequencies rope_frequencies(const DraftHeadConfig& config);

// Bytes that a head reads. Matrices have the format given to bytes_of(), or BF16 if their rows are not whole
// blocks of that format.
struct DraftHeadBytes {
  size_t fc{0}, k_and_v{0};  // read once per step, for the keys and values of the step's rows
  size_t draft{0};           // read for each draft: the layer, including k and v, and the unembedding

  size_t of_step(int num_drafts) const { return fc + k_and_v + static_cast<size_t>(num_drafts) * draft; }
};
DraftHeadBytes bytes_of(const DraftHeadConfig& config, Format format);

struct DraftHead {
  DraftHeadConfig config;
  Vector features_norm;  // [3 H]; empty without norm_before_fc
  Matrix fc;             // [H, 3 H]: maps the outputs of the three layers to one feature vector
  // [H]: norm weights for the token's embedding, and for the features (later in a chain: for the previous
  // output).
  Vector token_norm, hidden_norm;
  Matrix q, k, v;         // [heads D, 2 H]: input is the normed embedding, then the normed features
  Matrix o;               // [H, Nq D]
  Vector mlp_norm;        // [H]
  Matrix gate, up, down;  // [I, H], [I, H], [H, I]
  Vector final_norm;      // [H]
  // The next two matrices are empty if the file lacks them: the model's are used.
  Matrix unembedding;  // [draft_vocab, H]
  Matrix embedding;    // [V, H]

  std::vector<TokenId> tokens;  // [draft_vocab]: the model's token id of each draft id
  std::string source;           // path of the file, for messages
  std::shared_ptr<const void> storage;
};

// Returns `head`, with the model's embedding and unembedding if the head has none. Throws InputError if the
// model has freed them.
DraftHead with_parts_of(const Weights& model, DraftHead head);

// Opens a folder with config.json and model.safetensors. The file may lack the embedding and, if the head has
// the whole vocabulary, the unembedding. Throws InputError.
std::shared_ptr<const DraftHead> open_draft_head(const std::filesystem::path& folder, const Config& model);

}  // namespace nibble
