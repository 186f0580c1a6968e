// Random weights of any configuration, the same every time, so that anyone can measure gpt-oss-120b without having it.
// Scaled so that activations stay in range and routing is about uniform over the experts; what they say is noise.
#pragma once

#include <cstdint>
#include <filesystem>

#include "core/progress.h"
#include "model/config.h"
#include "model/weights.h"

namespace nibble {

// Made in memory, by all cores. Bytes: the sum over tensor_specs(config).
Weights make_synthetic(const Config& config, const std::string& source, uint64_t seed = 0,
                       const ReportProgress& report = {});

// The same weights, not made: every tensor is in Weights::unmade. Takes addresses, no memory.
Weights describe_synthetic(const Config& config, const std::string& source, uint64_t seed = 0);

// The same weights, written as a Hugging Face checkpoint folder (config.json, index, shards of at most 5 GB) tensor by
// tensor: needs the memory of one tensor. Throws InputError if the folder exists and is not empty.
void write_synthetic(const Config& config, const std::filesystem::path& folder, uint64_t seed = 0,
                     const ReportProgress& report = {});

}  // namespace nibble
