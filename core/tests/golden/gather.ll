; gather: no actions
define internal void @"gather.body"(ptr noalias %data0, ptr noalias readonly %data1, ptr noalias readonly %data2) #0 {
entry:
  br label %head0
head0:
  %r0 = phi i64 [ 0, %entry ], [ %next0, %latch0 ]
  %more1 = icmp slt i64 %r0, 7
  br i1 %more1, label %loop0, label %exit0
loop0:
  %mul2 = mul nsw i64 %r0, 4
  %p3 = getelementptr inbounds i32, ptr %data1, i64 %mul2
  %load4 = load <4 x i32>, ptr %p3, align 4
  %cast5 = sext <4 x i32> %load4 to <4 x i64>
  %cmplt6 = icmp slt <4 x i64> %cast5, splat (i64 0)
  %not7 = xor <4 x i1> %cmplt6, splat (i1 true)
  %cmplt8 = icmp slt <4 x i64> %cast5, splat (i64 11)
  %and9 = and <4 x i1> %not7, %cmplt8
  %lane10 = extractelement <4 x i64> %cast5, i64 0
  %lane11 = extractelement <4 x i1> %and9, i64 0
  %safe12 = select i1 %lane11, i64 %lane10, i64 0
  %p13 = getelementptr inbounds float, ptr %data2, i64 %safe12
  %load14 = load float, ptr %p13, align 4
  %load15 = select i1 %lane11, float %load14, float 0.0
  %lane16 = extractelement <4 x i64> %cast5, i64 1
  %lane17 = extractelement <4 x i1> %and9, i64 1
  %safe18 = select i1 %lane17, i64 %lane16, i64 0
  %p19 = getelementptr inbounds float, ptr %data2, i64 %safe18
  %load20 = load float, ptr %p19, align 4
  %load21 = select i1 %lane17, float %load20, float 0.0
  %lane22 = extractelement <4 x i64> %cast5, i64 2
  %lane23 = extractelement <4 x i1> %and9, i64 2
  %safe24 = select i1 %lane23, i64 %lane22, i64 0
  %p25 = getelementptr inbounds float, ptr %data2, i64 %safe24
  %load26 = load float, ptr %p25, align 4
  %load27 = select i1 %lane23, float %load26, float 0.0
  %lane28 = extractelement <4 x i64> %cast5, i64 3
  %lane29 = extractelement <4 x i1> %and9, i64 3
  %safe30 = select i1 %lane29, i64 %lane28, i64 0
  %p31 = getelementptr inbounds float, ptr %data2, i64 %safe30
  %load32 = load float, ptr %p31, align 4
  %load33 = select i1 %lane29, float %load32, float 0.0
  %set34 = insertelement <4 x float> poison, float %load15, i64 0
  %set35 = insertelement <4 x float> %set34, float %load21, i64 1
  %set36 = insertelement <4 x float> %set35, float %load27, i64 2
  %set37 = insertelement <4 x float> %set36, float %load33, i64 3
  %p38 = getelementptr inbounds float, ptr %data0, i64 %mul2
  store <4 x float> %set37, ptr %p38, align 4
  br label %latch0
latch0:
  %next0 = add nuw nsw i64 %r0, 1
  br label %head0
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
