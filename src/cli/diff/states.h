// The results of a model for some tokens, by operation or by layer.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "core/tokens/token.h"
#include "setup/model/model.h"
#include "setup/settings/resolved_settings.h"

namespace nibble::cli {

// The result of one operation, [number of tokens, width]. For "project" and "experts", only the values that
// the operation adds to the residual stream. In the stream, which is a sum over all earlier operations, an
// error in them would look small.
struct State {
  std::string name;  // "embed", "layer 3 qkv", "layer 3 output", "unembed"
  std::vector<float> values;
};

struct States {
  std::vector<TokenId> tokens;
  std::vector<State> states;
  int num_rows() const { return static_cast<int>(tokens.size()); }
};

// Runs the tokens in one step. Returns no states if the backend does not trace its operations.
States states_by_operation(Backend& backend, const BackendOptions& room, std::vector<TokenId> tokens);

// Returns a state per layer, with any backend. For each layer, loads the model cut off after that layer, and
// takes its logits as the layer's output.
States states_by_layer(const Model& model, const ResolvedSettings& setup, std::vector<TokenId> tokens);

// Writes a safetensors file with the tokens and the states.
void write_states(const std::filesystem::path& path, const States& states);
States read_states(const std::filesystem::path& path);  // throws InputError

}  // namespace nibble::cli
