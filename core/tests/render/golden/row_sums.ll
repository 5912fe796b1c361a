; row_sums: unroll 2, vectorise 8
define internal void @"row_sums.body"(ptr noalias %data0, ptr noalias readonly %data1) #0 {
entry:
  %acc0_0 = alloca <8 x float>
  %acc0_1 = alloca <8 x float>
  %acc1 = alloca float
  br label %loop0
loop0:
  %r0 = phi i64 [ 0, %entry ], [ %next0, %latch0 ]
  store <8 x float> splat (float 0.0), ptr %acc0_0
  store <8 x float> splat (float 0.0), ptr %acc0_1
  br label %loop3
loop3:
  %r3 = phi i64 [ 0, %loop0 ], [ %next3, %latch3 ]
  %mul1 = mul nsw i64 %r0, 64
  %mul2 = mul nsw i64 %r3, 2
  %add3 = add nsw i64 %mul2, 1
  %mul4 = mul nsw i64 %mul2, 8
  %mul5 = mul nsw i64 %add3, 8
  %add6 = add nsw i64 %mul1, %mul4
  %add7 = add nsw i64 %mul1, %mul5
  %p8 = getelementptr inbounds float, ptr %data1, i64 %add6
  %load9 = load <8 x float>, ptr %p8, align 4
  %p10 = getelementptr inbounds float, ptr %data1, i64 %add7
  %load11 = load <8 x float>, ptr %p10, align 4
  %old12 = load <8 x float>, ptr %acc0_0
  %add13 = fadd <8 x float> %old12, %load9
  store <8 x float> %add13, ptr %acc0_0
  %old14 = load <8 x float>, ptr %acc0_1
  %add15 = fadd <8 x float> %old14, %load11
  store <8 x float> %add15, ptr %acc0_1
  br label %latch3
latch3:
  %next3 = add nuw nsw i64 %r3, 1
  %more16 = icmp slt i64 %next3, 4
  br i1 %more16, label %loop3, label %exit3
exit3:
  store float 0.0, ptr %acc1
  %get17 = load <8 x float>, ptr %acc0_0
  %get18 = load <8 x float>, ptr %acc0_1
  %half19 = shufflevector <8 x float> %get17, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %half20 = shufflevector <8 x float> %get17, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %add21 = fadd <4 x float> %half19, %half20
  %half22 = shufflevector <4 x float> %add21, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %half23 = shufflevector <4 x float> %add21, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %add24 = fadd <2 x float> %half22, %half23
  %lane25 = extractelement <2 x float> %add24, i64 0
  %lane26 = extractelement <2 x float> %add24, i64 1
  %add27 = fadd float %lane25, %lane26
  %half28 = shufflevector <8 x float> %get18, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %half29 = shufflevector <8 x float> %get18, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %add30 = fadd <4 x float> %half28, %half29
  %half31 = shufflevector <4 x float> %add30, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %half32 = shufflevector <4 x float> %add30, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %add33 = fadd <2 x float> %half31, %half32
  %lane34 = extractelement <2 x float> %add33, i64 0
  %lane35 = extractelement <2 x float> %add33, i64 1
  %add36 = fadd float %lane34, %lane35
  %old37 = load float, ptr %acc1
  %add38 = fadd float %old37, %add27
  store float %add38, ptr %acc1
  %old39 = load float, ptr %acc1
  %add40 = fadd float %old39, %add36
  store float %add40, ptr %acc1
  %get41 = load float, ptr %acc1
  %p42 = getelementptr inbounds float, ptr %data0, i64 %r0
  store float %get41, ptr %p42, align 4
  br label %latch0
latch0:
  %next0 = add nuw nsw i64 %r0, 1
  %more43 = icmp slt i64 %next0, 3
  br i1 %more43, label %loop0, label %exit0
exit0:
  ret void
}

define void @"row_sums"(ptr %buffers, ptr %variables) #0 {
  %at0 = getelementptr ptr, ptr %buffers, i64 0
  %data0 = load ptr, ptr %at0
  %at1 = getelementptr ptr, ptr %buffers, i64 1
  %data1 = load ptr, ptr %at1
  call void @"row_sums.body"(ptr %data0, ptr %data1)
  ret void
}

attributes #0 = { nounwind "prefer-vector-width"="256" }
