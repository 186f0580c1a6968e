// A draft head in the manner of EAGLE-3 (Li et al., arXiv 2503.01840): a network of one layer that guesses how a text goes on from what
// the model computed for it anyway, the outputs of three of its layers. Its formulas are in reference/draft_head.h.
//
// Heads for gpt-oss come in three spellings: SpecForge's (lmsys), Model-Optimizer's (NVIDIA) and that of speculators (Red Hat). They are
// one network with some norms more or less, and two meanings of the layers' numbers. Engines that passed over one of these for months
// lost accepted drafts and nothing else, so that nobody saw it: here whatever is not known is refused.
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

// Llama 3's change of RoPE: frequencies of few turns over the original context are divided by the factor, those of many are kept.
struct Llama3Rope {
  double factor{8}, low_turns{1}, high_turns{4};
  int original_context{8192};
  friend bool operator==(const Llama3Rope&, const Llama3Rope&) = default;
};

struct DraftHeadConfig {
  static constexpr size_t kNumTaps{3};

  int hidden{0};                      // H, the model's
  int vocab{0};                       // V, the model's
  int draft_vocab{0};                 // rows of the head's own unembedding
  int intermediate{0};                // of its MLP
  int num_heads{0}, num_kv_heads{0};  // query head j reads key/value head j / (num_heads / num_kv_heads)
  int head_dim{0};                    // D
  std::array<int, kNumTaps> taps{};   // the layers of the model whose outputs it reads, ascending
  float rms_eps{1e-5f};
  double rope_theta{10000};
  std::optional<Llama3Rope> llama3{};  // nothing: plain RoPE
  bool norm_before_fc{false};          // norms the three outputs, as one vector, before they are joined
  bool norm_before_residual{false};    // the residual is the normed input, not the input
  bool norm_output{false};             // a chain goes on from the normed output

  friend bool operator==(const DraftHeadConfig&, const DraftHeadConfig&) = default;
};

// Parses a head's config.json in any of the spellings. Throws InputError, which names file (`origin`), field, value and what is accepted,
// also where the head was made for another model than `model`.
DraftHeadConfig parse_draft_head_config(std::string_view json, const std::string& origin,
                                        const Config& model);

RopeFrequencies rope_frequencies(const DraftHeadConfig& config);

// The bytes of a head's matrices that are held in `format`; one whose rows are no whole blocks is in BF16.
struct DraftHeadBytes {
  size_t fc{0}, k_and_v{0};  // what a step reads that fills the slots of its rows
  size_t draft{0};           // and for each draft: the layer, k and v among it, and the unembedding

  size_t of_step(int num_drafts) const { return fc + k_and_v + static_cast<size_t>(num_drafts) * draft; }
};
DraftHeadBytes bytes_of(const DraftHeadConfig& config, Format format);

struct DraftHead {
  DraftHeadConfig config;
  Vector features_norm;  // [3 H]; empty without norm_before_fc
  Matrix fc;             // [H, 3 H]: joins the outputs of the layers to one vector of features
  Vector token_norm,
      hidden_norm;        // [H] each: of the token's embedding, and of the features or the last output
  Matrix q, k, v;         // [heads D, 2 H]: their input is the embedding, then the features
  Matrix o;               // [H, Nq D]
  Vector mlp_norm;        // [H]
  Matrix gate, up, down;  // [I, H], [I, H], [H, I]
  Vector final_norm;      // [H]
  // Where the file has none of these they are the model's, and nothing is stored here.
  Matrix unembedding;  // [draft_vocab, H]
  Matrix embedding;    // [V, H]

  std::vector<TokenId> tokens;  // [draft_vocab]: the model's id of each draft id
  std::string source;           // for messages
  std::shared_ptr<const void> storage;
};

// The head with the model's matrices in place of those that it lacks. Throws InputError where the model has them no more.
DraftHead with_parts_of(const Weights& model, DraftHead head);

// Opens a folder with config.json and model.safetensors. A file may lack embeddings, and the unembedding of a head with the whole
// vocabulary. Throws InputError.
std::shared_ptr<const DraftHead> open_draft_head(const std::filesystem::path& folder, const Config& model);

}  // namespace nibble
