#include "cli/diff/states.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "cli/measure/backend_sequence.h"
#include "core/errors/error.h"
#include "formats/open_container.h"
#include "formats/safetensors_writer.h"
#include "setup/plan/capacity.h"
#include "setup/start/load.h"

namespace nibble::cli {
namespace {

constexpr std::string_view kTokensName{"tokens"};

std::string name_of(const TracedResult& result) {
  const std::string operation =
      result.operation == Operation::kExpertsUp ? "experts" : std::string(name(result.operation));
  return result.layer < 0 ? operation : fmt::format("layer {} {}", result.layer, operation);
}

bool is_residual(Operation operation) {
  return operation == Operation::kEmbed || operation == Operation::kProject ||
         operation == Operation::kExpertsUp;
}

// Returns the model without the layers from `num_layers` on.
Model cut_off(const Model& model, int num_layers) {
  Model cut = model;
  cut.config.num_layers = num_layers;
  cut.config.layer_kinds.resize(static_cast<size_t>(num_layers));
  if (model.weights) {
    Weights weights = *model.weights;
    weights.config = cut.config;
    weights.layers.resize(static_cast<size_t>(num_layers));
    cut.weights = std::make_shared<const Weights>(std::move(weights));
  }
  return cut;
}

template <typename T>
std::vector<T> copied(const Tensor& tensor) {
  std::vector<T> values(tensor.data.size() / sizeof(T));
  std::memcpy(values.data(), tensor.data.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace

States states_by_operation(Backend& backend, const BackendOptions& room, std::vector<TokenId> tokens) {
  BackendSequence sequence(backend, room);
  sequence.reserve(static_cast<int>(tokens.size()));
  std::vector<OutputRow> outputs(tokens.size());
  for (size_t row = 0; row < outputs.size(); ++row) outputs[row].token_index = static_cast<int>(row);
  const Run run = sequence.run_of(tokens, 0, outputs);

  States all{std::move(tokens), {}};
  std::vector<float> stream;  // residual stream before the current operation
  for (TracedResult& result : backend.trace({{&run, 1}, /*want_logits=*/true})) {
    if (is_residual(result.operation)) {
      // now `values` is the stream before the operation; empty for the first operation
      std::swap(stream, result.values);
      if (result.values.empty()) result.values.resize(stream.size());
      std::ranges::transform(stream, result.values, result.values.begin(), std::minus<>());
    }
    all.states.push_back({name_of(result), std::move(result.values)});
  }
  return all;
}

States states_by_layer(const Model& model, const ResolvedSettings& setup, std::vector<TokenId> tokens) {
  States all{std::move(tokens), {}};
  for (int layer = 0; layer < model.config.num_layers; ++layer) {
    const Model cut = cut_off(model, layer + 1);
    const BackendOptions room = backend_options(cut.config, setup, {all.num_rows(), 1});
    const std::unique_ptr<Backend> backend = load(cut, setup, room);
    State state{fmt::format("layer {} output", layer), {}};
    BackendSequence(*backend, room).feed(all.tokens, [&](int, std::span<const float> logits) {
      state.values.insert(state.values.end(), logits.begin(), logits.end());
    });
    all.states.push_back(std::move(state));
  }
  return all;
}

void write_states(const std::filesystem::path& path, const States& states) {
  const size_t num_rows = states.tokens.size();
  std::vector<SafetensorsEntry> entries{{std::string(kTokensName), DType::kI32, {num_rows}}};
  for (const State& state : states.states)
    entries.push_back({state.name, DType::kF32, {num_rows, state.values.size() / num_rows}});
  SafetensorsWriter writer(path, std::move(entries));
  for (const SafetensorsEntry& entry : writer.entries()) {
    if (entry.name == kTokensName) {
      writer.append(std::as_bytes(std::span(states.tokens)));
      continue;
    }
    const auto state = std::ranges::find(states.states, entry.name, &State::name);
    writer.append(std::as_bytes(std::span(state->values)));
  }
  writer.finish();
}

States read_states(const std::filesystem::path& path) {
  const Container file = open_container(path);
  const Tensor* tokens = file.find(kTokensName);
  if (!tokens || tokens->dtype != DType::kI32)
    throw InputError("{}: not a file of 'nibble diff --save'", path.string());
  States states{copied<TokenId>(*tokens), {}};
  for (const Tensor& tensor : file.tensors)
    if (tensor.dtype == DType::kF32) states.states.push_back({tensor.name, copied<float>(tensor)});
  return states;
}

}  // namespace nibble::cli
