; row_sums: unroll 2, vectorise 8
define internal void @"row_sums.body"(ptr noalias %data0, ptr noalias readonly %data1) #0 {
entry:
  %acc0_0 = alloca <8 x float>
  %acc0_1 = alloca <8 x float>
  %acc1 = alloca float
  br label %head0
head0:
  %r0 = phi i64 [ 0, %entry ], [ %next0, %latch0 ]
  %more1 = icmp slt i64 %r0, 3
  br i1 %more1, label %loop0, label %exit0
loop0:
  store <8 x float> splat (float 0.0), ptr %acc0_0
  store <8 x float> splat (float 0.0), ptr %acc0_1
  br label %head3
head3:
  %r3 = phi i64 [ 0, %loop0 ], [ %next3, %latch3 ]
  %more2 = icmp slt i64 %r3, 4
  br i1 %more2, label %loop3, label %exit3
loop3:
  %mul3 = mul nsw i64 %r0, 64
  %mul4 = mul nsw i64 %r3, 2
  %add5 = add nsw i64 %mul4, 1
  %mul6 = mul nsw i64 %mul4, 8
  %mul7 = mul nsw i64 %add5, 8
  %add8 = add nsw i64 %mul3, %mul6
  %add9 = add nsw i64 %mul3, %mul7
  %p10 = getelementptr inbounds float, ptr %data1, i64 %add8
  %load11 = load <8 x float>, ptr %p10, align 4
  %p12 = getelementptr inbounds float, ptr %data1, i64 %add9
  %load13 = load <8 x float>, ptr %p12, align 4
  %old14 = load <8 x float>, ptr %acc0_0
  %add15 = fadd <8 x float> %old14, %load11
  store <8 x float> %add15, ptr %acc0_0
  %old16 = load <8 x float>, ptr %acc0_1
  %add17 = fadd <8 x float> %old16, %load13
  store <8 x float> %add17, ptr %acc0_1
  br label %latch3
latch3:
  %next3 = add nuw nsw i64 %r3, 1
  br label %head3
exit3:
  store float 0.0, ptr %acc1
  %get18 = load <8 x float>, ptr %acc0_0
  %get19 = load <8 x float>, ptr %acc0_1
  %half20 = shufflevector <8 x float> %get18, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %half21 = shufflevector <8 x float> %get18, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %add22 = fadd <4 x float> %half20, %half21
  %half23 = shufflevector <4 x float> %add22, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %half24 = shufflevector <4 x float> %add22, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %add25 = fadd <2 x float> %half23, %half24
  %lane26 = extractelement <2 x float> %add25, i64 0
  %lane27 = extractelement <2 x float> %add25, i64 1
  %add28 = fadd float %lane26, %lane27
  %half29 = shufflevector <8 x float> %get19, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %half30 = shufflevector <8 x float> %get19, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %add31 = fadd <4 x float> %half29, %half30
  %half32 = shufflevector <4 x float> %add31, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %half33 = shufflevector <4 x float> %add31, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %add34 = fadd <2 x float> %half32, %half33
  %lane35 = extractelement <2 x float> %add34, i64 0
  %lane36 = extractelement <2 x float> %add34, i64 1
  %add37 = fadd float %lane35, %lane36
  %old38 = load float, ptr %acc1
  %add39 = fadd float %old38, %add28
  store float %add39, ptr %acc1
  %old40 = load float, ptr %acc1
  %add41 = fadd float %old40, %add37
  store float %add41, ptr %acc1
  %get42 = load float, ptr %acc1
  %p43 = getelementptr inbounds float, ptr %data0, i64 %r0
  store float %get42, ptr %p43, align 4
  br label %latch0
latch0:
  %next0 = add nuw nsw i64 %r0, 1
  br label %head0
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
