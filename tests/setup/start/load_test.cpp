#include "setup/start/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "setup/model/model.h"
#include "setup/plan/capacity.h"
#include "setup/start/resolve.h"
#include "tests/error_of.h"

namespace nibble {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Load, WhatDoesNotFitIsRefusedWithTheFiguresBeforeItIsMade) {
  const Model model = open_model("synthetic:gpt-oss-120b", {});
  Settings settings;
  settings.context = 131072;
  const ResolvedSettings setup = resolve(settings);
  // 1,024 full contexts take 5 TB of keys and values, more memory than any machine that runs this test has.
  const BackendOptions options = backend_options(model.config, setup, {131072, 1024});
  EXPECT_THAT(
      error_of([&] { load(model, setup, options); }),
      AllOf(HasSubstr("synthetic:gpt-oss-120b needs"), HasSubstr("KV cache"), HasSubstr("available")));
}

}  // namespace
}  // namespace nibble
