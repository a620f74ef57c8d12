#include "simulate/cost_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ashlar::simulate {
namespace {

using testing::HasSubstr;

std::int64_t Ns(const std::string& json, const StepWork& work, const ModelWork& model = {}) {
  const auto cost = CostModel::Parse(json, "c.json", model);
  EXPECT_TRUE(cost.ok()) << cost.error().message;
  return cost.ok() ? cost->StepNs(work) : -1;
}

std::string MessageOf(const std::string& json) {
  const auto cost = CostModel::Parse(json, "c.json", {});
  return cost.ok() ? "ok" : cost.error().message;
}

TEST(CostModel, AddsUpItsTerms) {
  const std::string json = R"({"step_ns": 100, "rows_ns": [[1, 10], [11, 110], [21, 310]],
    "prefill_pair_ns": 2, "decode_pair_ns": 3, "sequence_ns": 5, "kv_byte_ns": 0.5})";
  EXPECT_EQ(Ns(json, {}), 100);
  EXPECT_EQ(Ns(json, {.tokens = 1}), 110);
  EXPECT_EQ(Ns(json, {.tokens = 6}), 160);
  EXPECT_EQ(Ns(json, {.tokens = 16}), 310);
  EXPECT_EQ(Ns(json, {.tokens = 31}), 610);  // as between the last two
  EXPECT_EQ(Ns(json, {.sequences = 2, .prefill_pairs = 10, .decode_pairs = 100, .kv_bytes = 8}),
            100 + 10 + 20 + 300 + 4);
}

TEST(CostModel, ADeviceTakesTheLongerOfComputingAndMoving) {
  const std::string json = R"({"device": {"name": "x", "flops_per_s": 2e9, "bytes_per_s": 1e9,
    "flops_share": 0.5, "step_ns": 7}, "request_ns": 9})";
  const ModelWork model = {.weight_bytes = 1000, .flops_per_token = 100, .flops_per_pair = 10};
  EXPECT_EQ(Ns(json, {.tokens = 1, .kv_bytes = 24}, model), 7 + 1024);
  EXPECT_EQ(Ns(json, {.tokens = 100, .prefill_pairs = 50, .decode_pairs = 10}, model),
            7 + 10'000 + 600);
  EXPECT_EQ(CostModel::Parse(json, "", model)->request_ns(), 9);
  const ModelWork experts = {.expert_bytes = 1000, .expert_share = 0.5};
  EXPECT_EQ(Ns(json, {.tokens = 2}, experts), 7 + 750);
}

TEST(CostModel, WhatItWritesItReads) {
  const CostModel::Measured measured = {.step_ns = 1.5,
                                        .rows_ns = {{1, 2.25}, {8, 3}},
                                        .prefill_pair_ns = 4,
                                        .decode_pair_ns = 5,
                                        .sequence_ns = 6,
                                        .kv_byte_ns = 7};
  const StepWork work = {
      .tokens = 5, .sequences = 2, .prefill_pairs = 3, .decode_pairs = 4, .kv_bytes = 10};
  EXPECT_EQ(Ns(CostModel::ToJson(measured, 3), work), CostModel::Of(measured).StepNs(work));
}

TEST(CostModel, EachFaultIsNamed) {
  EXPECT_THAT(MessageOf("[1]"), HasSubstr("c.json: it is not a JSON object"));
  EXPECT_THAT(MessageOf(R"({"step_ms": 1})"), HasSubstr("there is no field 'step_ms'; there are"));
  EXPECT_THAT(MessageOf(R"({"step_ns": -1})"), HasSubstr("'step_ns' is -1; it must be a number"));
  EXPECT_THAT(MessageOf(R"({"step_ns": "a"})"), HasSubstr("'step_ns' is \"a\""));
  EXPECT_THAT(MessageOf(R"({"rows_ns": [[2, 1], [1, 1]]})"), HasSubstr("'rows_ns' has [1,1]"));
  EXPECT_THAT(MessageOf(R"({"rows_ns": [[1]]})"), HasSubstr("'rows_ns' has [1]"));
  EXPECT_THAT(MessageOf(R"({"rows_ns": 3})"), HasSubstr("'rows_ns' has 3"));
  EXPECT_THAT(MessageOf(R"({"device": {}})"), HasSubstr("a device needs 'flops_per_s'"));
  EXPECT_THAT(MessageOf(R"({"device": 3})"), HasSubstr("'device' is 3"));
  EXPECT_THAT(MessageOf(R"({"device": {"flops_share": 2}})"), HasSubstr("from 0 to 1"));
  EXPECT_THAT(MessageOf(R"({"device": {}, "step_ns": 1})"), HasSubstr("no field 'step_ns'"));
}

TEST(CostModel, DevicesHaveNames) {
  EXPECT_EQ(CostModel::FindDevice("h100")->bytes_per_s, 3.35e12);
  EXPECT_FALSE(CostModel::FindDevice("abacus"));
  EXPECT_THAT(CostModel::DeviceNames(), HasSubstr("h100, h200"));
}

// A window of 4 in half of the lanes.
TEST(StepMeter, CountsPairsAndBytesByLane) {
  kv::LaneGroupSpec full;
  full.lanes = kv::LanesOfAllLayers(1, 2);
  full.key_dim = full.value_dim = 8;
  kv::LaneGroupSpec window = full;
  window.name = "sliding";
  const std::vector<std::uint32_t> layer = {1};
  window.lanes = kv::LanesOf(layer, 2);
  window.window = 4;
  const kv::KvLayout layout = *kv::KvLayout::Create({.groups = {full, window}});
  const StepMeter meter(layout);
  sched::StepPlan plan;
  plan.items = {{.id = SequenceId(1), .position = 10, .tokens = 1, .is_decode = true},
                {.id = SequenceId(2), .position = 2, .tokens = 3}};
  plan.tokens = 4;
  const StepWork work = meter.WorkOf(plan);
  EXPECT_EQ(work.tokens, 4U);
  EXPECT_EQ(work.sequences, 2U);
  EXPECT_EQ(work.decode_pairs, (11 + 4) / 2.0);
  EXPECT_EQ(work.prefill_pairs, ((3 + 4 + 5) + (3 + 4 + 4)) / 2.0);
  const double token_bytes = 2 * 2 * 8 * 2;  // of one group
  EXPECT_EQ(work.kv_bytes, token_bytes * (11 + 5 + 5 + 5));
}

}  // namespace
}  // namespace ashlar::simulate
