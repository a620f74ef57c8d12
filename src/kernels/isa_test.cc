#include "kernels/isa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/kernel_set.h"

namespace ashlar::kernels {
namespace {

TEST(Isa, TheReferenceRunsEverywhereAndTheBestIsTheLast) {
  const std::vector<Isa> isas = RunnableIsas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(isas.front(), Isa::kReference);
  EXPECT_EQ(isas.back(), BestIsa());
}

TEST(Isa, NamesParseBackToTheirIsa) {
  for (const Isa isa : RunnableIsas()) EXPECT_EQ(*ParseIsa(NameOf(isa)), isa);
  EXPECT_EQ(*ParseIsa("auto"), BestIsa());
}

TEST(Isa, AnUnknownNameIsAnErrorThatListsWhatRuns) {
  for (const char* name : {"", "sse9", "AVX2", "avx2 "}) {
    const Result<Isa> isa = ParseIsa(name);
    ASSERT_FALSE(isa.ok());
    EXPECT_EQ(isa.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(isa.error().message, ::testing::HasSubstr("auto, reference"));
  }
}

TEST(Isa, AnIsaOfAnotherProcessorIsAnError) {
#if defined(__x86_64__)
  EXPECT_FALSE(ParseIsa("neon").ok());
#else
  EXPECT_FALSE(ParseIsa("avx2").ok());
#endif
}

#if defined(__aarch64__)
TEST(Isa, NeonIsTheBestOfEveryAArch64) { EXPECT_EQ(BestIsa(), Isa::kNeon); }
#endif

TEST(Isa, EveryRunnableIsaHasATableOfItsOwn) {
  for (const Isa isa : RunnableIsas()) EXPECT_EQ(KernelsFor(isa).isa, isa);
}

}  // namespace
}  // namespace ashlar::kernels
