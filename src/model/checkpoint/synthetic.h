// Reproducible random weights for any configuration, to benchmark gpt-oss-120b without its checkpoint. The
// scales keep activations in range and routing about uniform over the experts. The generated text is noise.
#pragma once

#include <cstdint>
#include <string>

#include "core/console/progress.h"
#include "model/checkpoint/tensor_source.h"
#include "model/config.h"
#include "model/weights.h"

namespace nibble {

// Generates the weights in memory, on all cores. Memory: the sum of num_bytes in tensor_specs(config).
Weights make_synthetic(const Config& config, const std::string& source, uint64_t seed = 0,
                       const ReportProgress& report = {});

// Describes the same weights: matrices as Recipes (generated on demand), vectors in memory (120b: 80 MB).
Weights describe_synthetic(const Config& config, const std::string& source, uint64_t seed = 0);

// Returns a source of the same weights. The source generates a tensor when it is read.
TensorSource synthetic_source(const Config& config, const std::string& source, uint64_t seed = 0);

}  // namespace nibble
