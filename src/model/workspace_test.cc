// What is computed from sizes is what is taken: by every family, in raw and encoded layouts.
#include "model/workspace.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "model/forward.h"
#include "model/kv_layout.h"
#include "model/testing/tiny_model.h"

namespace ashlar::model {
namespace {

TEST(ForwardSizes, AreWhatAForwardPassTakes) {
  for (const NamedTinyModel& named : AllTinyModels()) {
    const std::vector<std::byte> bytes = MakeTinyModel(named.options).Build();
    const gguf::ModelFile file = *gguf::ModelFile::Parse(bytes, "tiny");
    ThreadPool pool(2);
    const Result<std::unique_ptr<const Model>> model = Model::Load(file, pool, nullptr);
    ASSERT_TRUE(model.ok()) << named.name << ": " << model.error().message;
    const ModelConfig& config = (*model)->config();
    for (const char* const codec : {"f32", "q8", "balanced"}) {
      const kv::KvLayout layout = *KvLayoutOf(config, *ParseKvCodecSpec(codec), 16);
      for (const std::size_t tokens : {1u, 7u, 64u}) {
        for (const Activations activations : {Activations::kF32, Activations::kInt8}) {
          const ForwardPass pass(**model, layout, kernels::KernelsFor(kernels::Isa::kReference),
                                 pool, tokens, activations);
          EXPECT_EQ(ForwardSizes::Of(config, layout, tokens, 2, activations).bytes(),
                    pass.workspace_bytes())
              << named.name << " " << codec << " " << tokens;
        }
      }
    }
    const Weights& weights = (*model)->weights();
    EXPECT_EQ(*Weights::BytesOf(file, config), weights.bytes() + weights.mapped_bytes())
        << named.name;
    EXPECT_EQ(weights.mapped_panel_bytes(), 0u);
  }
}

}  // namespace
}  // namespace ashlar::model
