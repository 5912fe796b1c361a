; gather: no actions
define internal void @"gather.body"(ptr noalias %data0, ptr noalias readonly %data1, ptr noalias readonly %data2) #0 {
entry:
  br label %loop0
loop0:
  %r0 = phi i64 [ 0, %entry ], [ %next0, %latch0 ]
  %mul1 = mul nsw i64 %r0, 4
  %p2 = getelementptr inbounds i32, ptr %data1, i64 %mul1
  %load3 = load <4 x i32>, ptr %p2, align 4
  %cast4 = sext <4 x i32> %load3 to <4 x i64>
  %cmplt5 = icmp slt <4 x i64> %cast4, splat (i64 0)
  %not6 = xor <4 x i1> %cmplt5, splat (i1 true)
  %cmplt7 = icmp slt <4 x i64> %cast4, splat (i64 11)
  %and8 = and <4 x i1> %not6, %cmplt7
  %lane9 = extractelement <4 x i64> %cast4, i64 0
  %lane10 = extractelement <4 x i1> %and8, i64 0
  %safe11 = select i1 %lane10, i64 %lane9, i64 0
  %p12 = getelementptr inbounds float, ptr %data2, i64 %safe11
  %load13 = load float, ptr %p12, align 4
  %load14 = select i1 %lane10, float %load13, float 0.0
  %lane15 = extractelement <4 x i64> %cast4, i64 1
  %lane16 = extractelement <4 x i1> %and8, i64 1
  %safe17 = select i1 %lane16, i64 %lane15, i64 0
  %p18 = getelementptr inbounds float, ptr %data2, i64 %safe17
  %load19 = load float, ptr %p18, align 4
  %load20 = select i1 %lane16, float %load19, float 0.0
  %lane21 = extractelement <4 x i64> %cast4, i64 2
  %lane22 = extractelement <4 x i1> %and8, i64 2
  %safe23 = select i1 %lane22, i64 %lane21, i64 0
  %p24 = getelementptr inbounds float, ptr %data2, i64 %safe23
  %load25 = load float, ptr %p24, align 4
  %load26 = select i1 %lane22, float %load25, float 0.0
  %lane27 = extractelement <4 x i64> %cast4, i64 3
  %lane28 = extractelement <4 x i1> %and8, i64 3
  %safe29 = select i1 %lane28, i64 %lane27, i64 0
  %p30 = getelementptr inbounds float, ptr %data2, i64 %safe29
  %load31 = load float, ptr %p30, align 4
  %load32 = select i1 %lane28, float %load31, float 0.0
  %set33 = insertelement <4 x float> poison, float %load14, i64 0
  %set34 = insertelement <4 x float> %set33, float %load20, i64 1
  %set35 = insertelement <4 x float> %set34, float %load26, i64 2
  %set36 = insertelement <4 x float> %set35, float %load32, i64 3
  %p37 = getelementptr inbounds float, ptr %data0, i64 %mul1
  store <4 x float> %set36, ptr %p37, align 4
  br label %latch0
latch0:
  %next0 = add nuw nsw i64 %r0, 1
  %more38 = icmp slt i64 %next0, 7
  br i1 %more38, label %loop0, label %exit0
exit0:
  ret void
}

define void @"gather"(ptr %buffers, ptr %variables) #0 {
  %at0 = getelementptr ptr, ptr %buffers, i64 0
  %data0 = load ptr, ptr %at0
  %at1 = getelementptr ptr, ptr %buffers, i64 1
  %data1 = load ptr, ptr %at1
  %at2 = getelementptr ptr, ptr %buffers, i64 2
  %data2 = load ptr, ptr %at2
  call void @"gather.body"(ptr %data0, ptr %data1, ptr %data2)
  ret void
}

attributes #0 = { nounwind "prefer-vector-width"="256" }
