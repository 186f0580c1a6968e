#include "setup/start/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "setup/model/model.h"
#include "setup/plan/capacity.h"
#include "setup/plan/experts.h"
#include "setup/start/resolve.h"
#include "tests/error_of.h"
#include "tests/folders.h"

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

struct Reports {
  std::vector<std::string> tasks;
  std::vector<double> shares;  // of all tasks, in the order of the calls
};

// Loads the bundled model and returns what was shown.
Reports reports_of_loading(const std::string& backend, const std::string& activations) {
  Settings settings;
  settings.backend = backend;
  if (!activations.empty()) settings.experts_activations = activations;
  ResolvedSettings setup = resolve(settings);
  Reports reports;
  setup.show_progress = [&](const std::string& task, ProgressUnit) -> ReportProgress {
    reports.tasks.push_back(task);
    return [&](size_t done, size_t total) {
      reports.shares.push_back(static_cast<double>(done) / static_cast<double>(total));
    };
  };
  const Model model = open_model_for(test::source_path("models/tiny-gpt-oss"), setup);
  load(model, setup, backend_options(model.config, setup, {64, 1}));
  return reports;
}

TEST(Load, OneBarCoversReadingAndPacking) {
  const Reports reports = reports_of_loading("cpu", "int8");
  ASSERT_EQ(reports.tasks.size(), 1u);
  EXPECT_THAT(reports.tasks[0], testing::StartsWith("loading "));
  EXPECT_TRUE(std::is_sorted(reports.shares.begin(), reports.shares.end()));
  EXPECT_EQ(std::count(reports.shares.begin(), reports.shares.end(), 1.0), 1);
  EXPECT_EQ(reports.shares.back(), 1);
  // Packing is the second half of the bar. It reports progress after each of 6 layers and the unembedding.
  // The last of these 7 reports may be missing, because the bar then already ends at 1.
  EXPECT_GE(std::count_if(reports.shares.begin(), reports.shares.end(),
                          [](double share) { return share > 0.5 && share < 1; }),
            6);
}

TEST(Load, TheBarOfABackendThatPacksNothingIsThatOfReading) {
  const Reports reports = reports_of_loading("reference", "");
  ASSERT_EQ(reports.tasks.size(), 1u);
  EXPECT_TRUE(std::is_sorted(reports.shares.begin(), reports.shares.end()));
  EXPECT_EQ(reports.shares.back(), 1);
  EXPECT_EQ(std::count(reports.shares.begin(), reports.shares.end(), 1.0), 1);
}

}  // namespace
}  // namespace nibble
