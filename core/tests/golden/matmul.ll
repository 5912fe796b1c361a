; matmul: unroll 3, vectorise 8
define internal void @"matmul.body"(ptr noalias %data0, ptr noalias readonly %data1, ptr noalias readonly %data2, i64 %part, i64 %parts) #0 {
entry:
  %acc0_0 = alloca <8 x float>
  %acc0_1 = alloca <8 x float>
  %acc0_2 = alloca <8 x float>
  %begin1 = mul nsw i64 2, %part
  %end2 = add nsw i64 %begin1, 2
  %first3 = udiv i64 %begin1, %parts
  %last4 = udiv i64 %end2, %parts
  br label %head0
head0:
  %r0 = phi i64 [ %first3, %entry ], [ %next0, %latch0 ]
  %more5 = icmp slt i64 %r0, %last4
  br i1 %more5, label %loop0, label %exit0
loop0:
  br label %head1
head1:
  %r1 = phi i64 [ 0, %loop0 ], [ %next1, %latch1 ]
  %more6 = icmp slt i64 %r1, 2
  br i1 %more6, label %loop1, label %exit1
loop1:
  store <8 x float> splat (float 0.0), ptr %acc0_0
  store <8 x float> splat (float 0.0), ptr %acc0_1
  store <8 x float> splat (float 0.0), ptr %acc0_2
  %mul7 = mul nsw i64 %r1, 8
  %mul8 = mul nsw i64 %r0, 3
  %add9 = add nsw i64 %mul8, 1
  %add10 = add nsw i64 %mul8, 2
  %mul11 = mul nsw i64 %mul8, 5
  %mul12 = mul nsw i64 %add9, 5
  %mul13 = mul nsw i64 %add10, 5
  %mul14 = mul nsw i64 %mul8, 16
  %mul15 = mul nsw i64 %add9, 16
  %mul16 = mul nsw i64 %add10, 16
  %add17 = add nsw i64 %mul14, %mul7
  %add18 = add nsw i64 %mul15, %mul7
  %add19 = add nsw i64 %mul16, %mul7
  br label %head4
head4:
  %r4 = phi i64 [ 0, %loop1 ], [ %next4, %latch4 ]
  %more20 = icmp slt i64 %r4, 5
  br i1 %more20, label %loop4, label %exit4
loop4:
  %add21 = add nsw i64 %mul11, %r4
  %add22 = add nsw i64 %mul12, %r4
  %add23 = add nsw i64 %mul13, %r4
  %p24 = getelementptr inbounds float, ptr %data1, i64 %add21
  %load25 = load float, ptr %p24, align 4
  %p26 = getelementptr inbounds float, ptr %data1, i64 %add22
  %load27 = load float, ptr %p26, align 4
  %p28 = getelementptr inbounds float, ptr %data1, i64 %add23
  %load29 = load float, ptr %p28, align 4
  %mul30 = mul nsw i64 %r4, 16
  %add31 = add nsw i64 %mul30, %mul7
  %p32 = getelementptr inbounds float, ptr %data2, i64 %add31
  %load33 = load <8 x float>, ptr %p32, align 4
  %first34 = insertelement <8 x float> poison, float %load25, i64 0
  %splat35 = shufflevector <8 x float> %first34, <8 x float> poison, <8 x i32> zeroinitializer
  %mul36 = fmul <8 x float> %splat35, %load33
  %first37 = insertelement <8 x float> poison, float %load27, i64 0
  %splat38 = shufflevector <8 x float> %first37, <8 x float> poison, <8 x i32> zeroinitializer
  %mul39 = fmul <8 x float> %splat38, %load33
  %first40 = insertelement <8 x float> poison, float %load29, i64 0
  %splat41 = shufflevector <8 x float> %first40, <8 x float> poison, <8 x i32> zeroinitializer
  %mul42 = fmul <8 x float> %splat41, %load33
  %old43 = load <8 x float>, ptr %acc0_0
  %add44 = fadd <8 x float> %old43, %mul36
  store <8 x float> %add44, ptr %acc0_0
  %old45 = load <8 x float>, ptr %acc0_1
  %add46 = fadd <8 x float> %old45, %mul39
  store <8 x float> %add46, ptr %acc0_1
  %old47 = load <8 x float>, ptr %acc0_2
  %add48 = fadd <8 x float> %old47, %mul42
  store <8 x float> %add48, ptr %acc0_2
  br label %latch4
latch4:
  %next4 = add nuw nsw i64 %r4, 1
  br label %head4
exit4:
  %get49 = load <8 x float>, ptr %acc0_0
  %get50 = load <8 x float>, ptr %acc0_1
  %get51 = load <8 x float>, ptr %acc0_2
  %p52 = getelementptr inbounds float, ptr %data0, i64 %add17
  store <8 x float> %get49, ptr %p52, align 4
  %p53 = getelementptr inbounds float, ptr %data0, i64 %add18
  store <8 x float> %get50, ptr %p53, align 4
  %p54 = getelementptr inbounds float, ptr %data0, i64 %add19
  store <8 x float> %get51, ptr %p54, align 4
  br label %latch1
latch1:
  %next1 = add nuw nsw i64 %r1, 1
  br label %head1
exit1:
  br label %latch0
latch0:
  %next0 = add nuw nsw i64 %r0, 1
  br label %head0
exit0:
  ret void
}

define void @"matmul"(ptr %buffers, ptr %variables) #0 {
  %at0 = getelementptr ptr, ptr %buffers, i64 0
  %data0 = load ptr, ptr %at0
  %at1 = getelementptr ptr, ptr %buffers, i64 1
  %data1 = load ptr, ptr %at1
  %at2 = getelementptr ptr, ptr %buffers, i64 2
  %data2 = load ptr, ptr %at2
  %where0 = getelementptr i64, ptr %variables, i64 0
  %part = load i64, ptr %where0
  %where1 = getelementptr i64, ptr %variables, i64 1
  %parts = load i64, ptr %where1
  call void @"matmul.body"(ptr %data0, ptr %data1, ptr %data2, i64 %part, i64 %parts)
  ret void
}

attributes #0 = { nounwind "prefer-vector-width"="256" }
