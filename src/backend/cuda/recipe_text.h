// Describes a step's recipe in words, for `inspect --kernels --rows`.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "backend/cuda/recipe.h"

namespace nibble::cuda {

std::vector<StepFact> describe(const StepRecipe& recipe, const UnembedRecipe& unembed);

}  // namespace nibble::cuda
